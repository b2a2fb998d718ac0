class _wirectl:
    """Describes the functions of this file as tools, and calls them."""

    import base64, collections.abc, dataclasses, datetime, decimal, enum, inspect, json, re, types, typing

    namespace = globals()

    @classmethod
    def found(cls):
        """The public functions of the file: those in __all__, if there is one."""
        space = cls.namespace
        names = space.get("__all__")
        for name in list(space) if names is None else names:
            f = space.get(name)
            ours = cls.inspect.isfunction(f) and f.__globals__ is space
            if ours and (names is not None or not name.startswith("_")):
                yield name, f
            elif names is not None:
                raise NameError("__all__ names %r, which is no function of this file" % name)

    @classmethod
    def describe(cls):
        tools = [cls.tool(name, f) for name, f in cls.found()]
        if not tools:
            raise ValueError("there are no functions: want def NAME(…) at the top of the file")
        return cls.json.dumps(tools)

    @classmethod
    def tool(cls, name, f):
        if cls.inspect.iscoroutinefunction(f):
            raise TypeError("%s is an async function: want a plain one" % name)
        doc = cls.inspect.getdoc(f) or ""
        texts, properties, required = cls.documented(doc), {}, []
        schema = {"type": "object", "properties": properties}
        hints = cls.hints(f)
        for p in cls.inspect.signature(f).parameters.values():
            if p.kind == p.VAR_KEYWORD:
                continue
            if p.kind in (p.VAR_POSITIONAL, p.POSITIONAL_ONLY):
                raise TypeError("%s: the parameter %s has to have a name for callers" % (name, p))
            of = cls.schema(hints.get(p.name))
            if texts.get(p.name):
                of["description"] = texts[p.name]
            if p.default is p.empty:
                required.append(p.name)
            else:
                of["default"] = cls.plain(p.default)
            properties[p.name] = of
        if required:
            schema["required"] = required
        if not any(p.kind == p.VAR_KEYWORD for p in cls.inspect.signature(f).parameters.values()):
            schema["additionalProperties"] = False
        first = doc.strip().split("\n")[0].strip()
        return {"name": name, "description": first, "parameters": schema}

    @classmethod
    def hints(cls, f):
        try:
            return cls.typing.get_type_hints(f, include_extras=True)
        except TypeError:  # before 3.9
            return cls.typing.get_type_hints(f)

    # Types.

    @classmethod
    def schema(cls, t):
        """The JSON Schema of a type."""
        t, text = cls.bare(t)
        of = cls.schema_of(t)
        if text:
            of["description"] = text
        return of

    @classmethod
    def bare(cls, t):
        """A type without its annotations, and the text among those."""
        if hasattr(t, "__metadata__"):
            return t.__origin__, next((m for m in t.__metadata__ if isinstance(m, str)), "")
        return t, ""

    @classmethod
    def union(cls, t):
        origin = cls.typing.get_origin(t)
        return origin is cls.typing.Union or origin is not None and origin is getattr(cls.types, "UnionType", None)

    @classmethod
    def schema_of(cls, t):
        simple = {
            str: {"type": "string"}, int: {"type": "integer"}, float: {"type": "number"}, bool: {"type": "boolean"},
            type(None): {"type": "null"}, cls.decimal.Decimal: {"type": "string"},
            cls.datetime.datetime: {"type": "string", "format": "date-time"},
            cls.datetime.date: {"type": "string", "format": "date"}, cls.datetime.time: {"type": "string", "format": "time"},
            bytes: {"type": "object", "properties": {"__bytes__": {"type": "string", "contentEncoding": "base64"}}, "required": ["__bytes__"]},
        }
        origin, args = cls.typing.get_origin(t), cls.typing.get_args(t)
        if isinstance(t, type) and t in simple:
            return dict(simple[t])
        if t is None:
            return {}
        if cls.union(t):
            return {"anyOf": [cls.schema(a) for a in args]}
        if origin is cls.typing.Literal:
            return {"enum": list(args)}
        if isinstance(t, type) and issubclass(t, cls.enum.Enum):
            return {"enum": [cls.plain(m.value) for m in t]}
        if cls.dataclasses.is_dataclass(t):
            hints, fields = cls.hints(t), [f for f in cls.dataclasses.fields(t) if f.init]
            missing = cls.dataclasses.MISSING
            return cls.record({f.name: hints[f.name] for f in fields}, [f.name for f in fields if f.default is missing and f.default_factory is missing])
        if isinstance(t, type) and hasattr(t, "__total__"):  # a TypedDict
            return cls.record(cls.hints(t), sorted(getattr(t, "__required_keys__", t.__annotations__)))
        kind = origin or t
        if kind is tuple and args and args[-1] is not Ellipsis:
            return {"type": "array", "prefixItems": [cls.schema(a) for a in args], "minItems": len(args), "maxItems": len(args)}
        if isinstance(kind, type) and issubclass(kind, cls.collections.abc.Mapping):
            return {"type": "object", "additionalProperties": cls.schema(args[1])} if len(args) == 2 else {"type": "object"}
        if isinstance(kind, type) and issubclass(kind, cls.collections.abc.Iterable):
            of = {"type": "array", "items": cls.schema(args[0]) if args else {}}
            if issubclass(kind, cls.collections.abc.Set):
                of["uniqueItems"] = True
            return of
        return {}

    @classmethod
    def record(cls, hints, required):
        of = {"type": "object", "properties": {n: cls.schema(t) for n, t in hints.items()}}
        if required:
            of["required"] = required
        return of

    # Docstrings.

    @classmethod
    def documented(cls, doc):
        """What a docstring says of the parameters, as Google, NumPy or Sphinx write that."""
        found = {}
        for m in cls.re.finditer(r"(?m)^\s*:param\s+(?:[^:]*?\s)?\*{0,2}(\w+)\s*:\s*(.*(?:\n[ \t]+(?!:).*)*)", doc):
            found[m.group(1)] = cls.joined(m.group(2))
        google = cls.re.search(r"(?m)^(?:Args|Arguments|Parameters):[ \t]*\n((?:[ \t]+.*(?:\n|$)|[ \t]*\n)+)", doc)
        if google:
            found.update(cls.items(google.group(1), r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)"))
        numpy = cls.re.search(r"(?m)^Parameters[ \t]*\n-{3,}[ \t]*\n((?:(?!\S.*\n-{3,}).*(?:\n|$))*)", doc + "\n")
        if numpy:
            found.update(cls.items(numpy.group(1), r"\*{0,2}(\w+)\s*(?::.*)?()$"))
        return found

    @classmethod
    def items(cls, block, begins):
        """The items of a block: each begins at its margin, and goes on further in."""
        lines = cls.inspect.cleandoc("\n" + block).split("\n")
        found, name = {}, None
        for line in lines:
            m = cls.re.match(begins, line) if line and not line[0].isspace() else None
            if m:
                name = m.group(1)
                found[name] = m.group(2)
            elif line and not line[0].isspace():
                name = None
            elif name and line.strip():
                found[name] += "\n" + line
        return {n: cls.joined(text) for n, text in found.items()}

    @staticmethod
    def joined(text):
        return " ".join(text.split())

    # Calls.

    @classmethod
    def call(cls, name, arguments):
        f = dict(cls.found())[name]
        given, hints = cls.json.loads(arguments), cls.hints(f)
        bound = cls.inspect.signature(f).bind(**given)
        kwargs = {n: cls.value(v, hints.get(n)) for n, v in given.items()}
        del bound
        return cls.json.dumps(cls.plain(f(**kwargs)), ensure_ascii=False)

    @classmethod
    def value(cls, v, t):
        """A decoded value as its type has it."""
        t, _ = cls.bare(t)
        origin, args = cls.typing.get_origin(t), cls.typing.get_args(t)
        kind = origin or t
        if cls.union(t):
            return cls.first_of(v, args)
        if origin is cls.typing.Literal:
            if v not in args:
                raise ValueError("%r is none of %s" % (v, ", ".join(map(repr, args))))
            return v
        if cls.dataclasses.is_dataclass(t):
            hints = cls.hints(t)
            return t(**{n: cls.value(x, hints.get(n)) for n, x in v.items()})
        if not isinstance(kind, type):
            return v
        if issubclass(kind, cls.enum.Enum):
            return kind(v)
        if kind in (cls.datetime.datetime, cls.datetime.date, cls.datetime.time):
            return kind.fromisoformat(v[:-1] + "+00:00" if v.endswith("Z") else v)
        if kind is cls.decimal.Decimal:
            return kind(str(v))
        if kind is bytes:
            return cls.base64.b64decode(v["__bytes__"])
        if kind is float and type(v) is int:
            return float(v)
        if kind in (str, int, float, bool, type(None)) and not (isinstance(v, kind) and (kind is bool or not isinstance(v, bool))):
            raise TypeError("%r is no %s" % (v, kind.__name__))
        if issubclass(kind, (list, tuple, set, frozenset)):
            if not isinstance(v, list):
                raise TypeError("%r is no list" % (v,))
            each = args if kind is tuple and args and args[-1] is not Ellipsis else [args[0] if args else None] * len(v)
            if len(each) != len(v):
                raise ValueError("%d items, want %d" % (len(v), len(each)))
            return kind(cls.value(x, of) for x, of in zip(v, each))
        if issubclass(kind, dict) and len(args) == 2:
            return {k: cls.value(x, args[1]) for k, x in v.items()}
        return v

    @classmethod
    def first_of(cls, v, types):
        failure = None
        for t in types:
            try:
                return cls.value(v, t)
            except Exception as e:
                failure = e
        raise failure

    @classmethod
    def plain(cls, v):
        """A value as JSON can have it."""
        if v is None or type(v) in (bool, int, str):
            return v
        if isinstance(v, cls.enum.Enum):
            return cls.plain(v.value)
        if isinstance(v, float):
            return float(v) if v == v and v not in (float("inf"), float("-inf")) else str(v)
        if isinstance(v, (bool, int)):
            return int(v)
        if isinstance(v, str):
            return str(v)
        if isinstance(v, (bytes, bytearray)):
            return {"__bytes__": cls.base64.b64encode(bytes(v)).decode()}
        if isinstance(v, (cls.datetime.date, cls.datetime.time)):
            return v.isoformat()
        if isinstance(v, cls.decimal.Decimal):
            return str(v)
        if cls.dataclasses.is_dataclass(v) and not isinstance(v, type):
            return {f.name: cls.plain(getattr(v, f.name)) for f in cls.dataclasses.fields(v)}
        if isinstance(v, cls.collections.abc.Mapping):
            return {str(cls.plain(k)): cls.plain(x) for k, x in v.items()}
        if isinstance(v, (set, frozenset)):
            return sorted(map(cls.plain, v), key=cls.json.dumps)
        if isinstance(v, cls.collections.abc.Iterable):
            return [cls.plain(x) for x in v]
        return str(v)
