package jsonwalk_test

import (
	"fmt"
	"testing"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
)

type members struct {
	raw      []byte   `at:"a.b|c d.*.e"`
	word     []byte   `at:"word,word"`
	text     []byte   `at:"text,text"`
	unquoted []byte   `at:"unquoted,unquoted"`
	set      []byte   `at:"set,set"`
	prose    []byte   `at:"prose,filled"`
	_        struct{} `at:"list,filled,plain list[].text,filled,first"`
	dotted   []byte   `at:"x~y/z"`
	head     []byte   `at:"list[0].name"`
	count    int      `at:"list[]"`
	present  bool     `at:"present"`
	isTrue   bool     `at:"true,true"`
	last     int64    `at:"n"`
	sum      int64    `at:"n,sum"`
	micros   int64    `at:"cost,micros"`

	beside `at:"inner"`
	usage  struct {
		input int64 `at:"in"`
	} `at:"usage"`
}

type beside struct {
	id []byte `at:"id"`
}

var paths = jsonwalk.PathsOf[members]()

func TestPaths(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":{"b":1,"c":[2]}}`:                                                `raw=[2]`,
		`{"a":{"b":1},"a":{"b":null},"d":{"x":{"f":1}}}`:                       `raw=null`,
		`{"d":{"x":{"e":1},"y":{"e":2}}}`:                                      `raw=2`,
		`{"a":7}`:                                                              ``,
		`{"word":"w","text":[1],"unquoted":"\u0041"}`:                          `word=w text=[1] unquoted=A`,
		`{"word":1,"text":"t","unquoted":1}`:                                   `text=t`,
		`{"set":null,"prose":"p","prose":""}`:                                  `prose="p"`,
		`{"list":[{"text":""},{"text":"first","name":"n"},{"text":"second"}]}`: `prose="first" count=2`,
		`{"list":"plain","x.y/z":1}`:                                           `prose="plain" dotted=1`,
		`{"list":[{"name":1},{"name":2}]}`:                                     `head=1 count=1`,
		`{"present":null,"true":true,"true":false}`:                            `present`,
		`{"n":2,"n":3,"cost":0.5}`:                                             `last=3 sum=5 micros=500000`,
		`{"id":1,"inner":{"id":2},"usage":{"in":4}}`:                           `id=2 input=4`,
		`{"\u0061":{"b":1}}`:                                                   `raw=1`,
		`{"a":{"b":1},"text":"cut`:                                             `raw=1`,
	} {
		var m members
		var s jsonscan.Scanner
		s.Init([]byte(text))
		paths.Read(&s, &m)
		_ = s.End()
		if got := m.String(); got != want {
			t.Errorf("%s:\n got %s\nwant %s", text, got, want)
		}
	}
}

func (m *members) String() (all string) {
	add := func(isSet bool, format string, args ...any) {
		if isSet {
			if all != "" {
				all += " "
			}
			all += fmt.Sprintf(format, args...)
		}
	}
	for _, b := range []struct {
		name  string
		value []byte
	}{{"raw", m.raw}, {"word", m.word}, {"text", m.text}, {"unquoted", m.unquoted}, {"set", m.set}, {"prose", m.prose}, {"dotted", m.dotted}, {"head", m.head}, {"id", m.id}} {
		add(b.value != nil, "%s=%s", b.name, b.value)
	}
	add(m.count > 0, "count=%d", m.count)
	add(m.present, "present")
	add(m.isTrue, "true")
	add(m.last > 0, "last=%d", m.last)
	add(m.sum > 0, "sum=%d", m.sum)
	add(m.micros > 0, "micros=%d", m.micros)
	add(m.usage.input > 0, "input=%d", m.usage.input)
	return all
}

func TestPathsOfWrongTags(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("an unknown word is no fault")
		}
	}()
	jsonwalk.PathsOf[struct {
		a []byte `at:"a,wrod"`
	}]()
}
