// The official SDKs of OpenAI, Anthropic and Google as clients of the broker's OpenAI
// door, and jayson of its nexus door. Writes what they got as JSON.
//
//     node broker.cjs NODE_MODULES openai|anthropic|count URL MODEL
//     node broker.cjs NODE_MODULES loopChat|loopResponses|loopAnthropic|loopGemini|embed URL MODEL
//     node broker.cjs NODE_MODULES abortOpenAI|abortResponses|abortAnthropic|abortGemini URL MODEL
//     node broker.cjs NODE_MODULES odd URL MODEL.FORM,…
//     node broker.cjs NODE_MODULES deep URL MODEL
//     node broker.cjs NODE_MODULES abortDeep URL MODEL WHEN
//     node broker.cjs NODE_MODULES jayson PORT
const path = require('path');

const [modules, what, where, model, when] = process.argv.slice(2);
const load = (name) => require(path.join(modules, name));

const openAI = () => new (load('openai'))({ baseURL: `${where}/v1`, apiKey: 'unused', maxRetries: 0 });
const claude = () => new (load('@anthropic-ai/sdk'))({ baseURL: where, apiKey: 'unused', maxRetries: 0 });
const google = () => new (load('@google/genai').GoogleGenAI)({ apiKey: 'unused', httpOptions: { baseUrl: where } });
const say = (content, more) => ({ model, messages: [{ role: 'user', content }], ...more });
const ask = (content, more) => say(content, { max_tokens: 100, ...more });

async function openai() {
  const client = openAI();
  const got = {};
  got.models = (await client.models.list()).data.map((m) => m.id);
  const whole = await client.chat.completions.create(say('hello'));
  got.whole = whole.choices[0].message.content;
  got.finish = whole.choices[0].finish_reason;
  got.streamed = '';
  for await (const chunk of await client.chat.completions.create(say('hello', { stream: true }))) {
    got.streamed += chunk.choices[0]?.delta?.content ?? '';
  }
  const tools = [{ type: 'function', function: { name: 'get_weather', parameters: { type: 'object' } } }];
  const called = await client.chat.completions.create(say('weather', { tools }));
  got.tool = called.choices[0].message.tool_calls[0].function;
  got.toolFinish = called.choices[0].finish_reason;
  const failed = (promise) => promise.then(() => 'no error', (e) => `${e.status} ${e.code ?? e.type}`);
  got.unknown = await failed(client.chat.completions.create({ ...say('hello'), model: 'nope' }));
  got.limited = await failed(client.chat.completions.create(say('limited')));
  return got;
}

async function anthropic() {
  const client = claude();
  const got = {};
  const whole = await client.messages.create(ask('hello'));
  got.whole = whole.content;
  got.finish = whole.stop_reason;
  const stream = client.messages.stream(ask('hello'));
  got.streamed = '';
  stream.on('text', (text) => (got.streamed += text));
  const message = await stream.finalMessage();
  got.together = message.content;
  got.end = message.stop_reason;
  const tools = [{ name: 'get_weather', input_schema: { type: 'object' } }];
  const tool = ({ content, stop_reason }) => ({ ...content[0], id: typeof content[0].id, stop_reason });
  got.tool = tool(await client.messages.create(ask('weather', { tools })));
  got.streamedTool = tool(await client.messages.stream(ask('weather', { tools })).finalMessage());
  const failed = (promise) => promise.then(() => 'no error', (e) => `${e.constructor.name} ${e.status} ${e.error?.error?.type}`);
  got.unknown = await failed(client.messages.create({ ...ask('hello'), model: 'nope' }));
  got.limited = await failed(client.messages.create(ask('limited')));
  got.limitedStream = await failed(client.messages.stream(ask('limited')).finalMessage());
  got.wrong = await failed(client.messages.create({ model, max_tokens: 1 }));
  return got;
}

async function count() {
  return { tokens: (await claude().messages.countTokens(say('hello'))).input_tokens };
}

// Each loop asks for the weather, streamed, has a tool called, and gives its answer back.
const schema = { type: 'object', properties: { city: { type: 'string' } } };
const weather = { type: 'function', name: 'get_weather', parameters: schema, strict: false };

async function loopChat() {
  const client = openAI();
  const tools = [{ type: 'function', function: { name: 'get_weather', parameters: schema } }];
  const messages = [{ role: 'user', content: 'weather' }];
  const asked = await client.chat.completions.stream({ model, messages, tools }).finalChatCompletion();
  const { content, tool_calls: calls } = asked.choices[0].message;
  messages.push(asked.choices[0].message, { role: 'tool', tool_call_id: calls[0].id, content: 'tool-said-42' });
  const answer = await client.chat.completions.create({ model, messages, tools });
  return { said: content, called: calls[0].function.arguments, answer: answer.choices[0].message.content };
}

async function loopResponses() {
  const client = openAI();
  const got = { events: new Set(), said: '' };
  const stream = client.responses.stream({ model, input: 'weather', tools: [weather] });
  stream.on('event', (e) => got.events.add(e.type));
  const asked = await stream.finalResponse();
  got.said = asked.output_text;
  got.types = asked.output.map((item) => item.type);
  const call = asked.output.find((item) => item.type === 'function_call');
  got.called = call.arguments;
  const output = { type: 'function_call_output', call_id: call.call_id, output: 'tool-said-42' };
  const answer = await client.responses.create({ model, previous_response_id: asked.id, input: [output], tools: [weather] });
  got.answer = answer.output_text;
  got.total = answer.usage.total_tokens > 0;
  got.unknown = await client.responses.create({ model, previous_response_id: 'resp_0', input: 'x' }).catch((e) => `${e.status} ${e.code} ${e.param}`);
  return { ...got, events: [...got.events].sort() };
}

async function loopAnthropic() {
  const client = claude();
  const tools = [{ name: 'get_weather', input_schema: schema }];
  const messages = [{ role: 'user', content: 'weather' }];
  const asked = await client.messages.stream({ model, max_tokens: 100, messages, tools }).finalMessage();
  const call = asked.content.find((block) => block.type === 'tool_use');
  messages.push({ role: 'assistant', content: asked.content });
  messages.push({ role: 'user', content: [{ type: 'tool_result', tool_use_id: call.id, content: 'tool-said-42' }] });
  const answer = await client.messages.create({ model, max_tokens: 100, messages, tools });
  return { said: asked.content[0].text, called: JSON.stringify(call.input), answer: answer.content[0].text };
}

async function loopGemini() {
  const client = google();
  const config = { tools: [{ functionDeclarations: [{ name: 'get_weather', parametersJsonSchema: schema }] }], thinkingConfig: { includeThoughts: true } };
  const contents = [{ role: 'user', parts: [{ text: 'weather' }] }];
  const parts = [];
  let last;
  for await (const chunk of await client.models.generateContentStream({ model, contents, config })) {
    parts.push(...(chunk.candidates[0].content.parts ?? []));
    last = chunk;
  }
  const call = parts.find((part) => part.functionCall).functionCall;
  contents.push({ role: 'model', parts }, { role: 'user', parts: [{ functionResponse: { name: call.name, response: { output: 'tool-said-42' } } }] });
  const answer = await client.models.generateContent({ model, contents, config });
  const text = (thought) => parts.filter((part) => (part.thought ?? false) === thought).map((part) => part.text ?? '').join('');
  return {
    said: text(false), thought: text(true), called: JSON.stringify(call.args), finish: last.candidates[0].finishReason, answer: answer.text,
    counted: (await client.models.countTokens({ model, contents: 'hello' })).totalTokens > 0,
    unknown: await client.models.generateContent({ model: 'nope', contents: 'x' }).catch((e) => e.status),
  };
}

async function embed() {
  const client = openAI();
  const packed = await client.embeddings.create({ model, input: ['a', 'b'], dimensions: 3 }); // asks for base64 by itself
  const plain = await client.embeddings.create({ model, input: ['a', 'b'], dimensions: 3, encoding_format: 'float' });
  const round = (answer) => answer.data.map((of) => of.embedding.map((n) => n.toFixed(4)).join());
  return { same: round(packed).join(';') === round(plain).join(';'), vectors: plain.data.length };
}

// Each abort waits for the first text, and says when it aborted.
async function abortOpenAI() {
  for await (const chunk of await openAI().chat.completions.create(say('hello', { stream: true }))) {
    return { content: chunk.choices[0].delta.content, at: Date.now() }; // leaving the loop aborts
  }
}

async function abortResponses() {
  for await (const event of await openAI().responses.create({ model, input: 'hello', stream: true })) {
    if (event.type === 'response.output_text.delta') return { content: event.delta, at: Date.now() };
  }
}

async function abortAnthropic() {
  const stream = claude().messages.stream(ask('hello'));
  const got = {};
  stream.on('text', (text) => { got.content = text; got.at = Date.now(); stream.abort(); });
  await stream.done().catch((e) => (got.error = e.constructor.name));
  return got;
}

async function abortGemini() {
  const controller = new AbortController();
  const got = {};
  try {
    for await (const chunk of await google().models.generateContentStream({ model, contents: 'hello', config: { abortSignal: controller.signal } })) {
      got.content = chunk.text;
      got.at = Date.now();
      controller.abort();
    }
  } catch (e) {
    got.error = e.name;
  }
  return got;
}

// Each of these reads an answer, streamed or whole, and notes its text, tool calls, and tokens.
const understand = {
  async chat(got, model, stream) {
    const client = openAI();
    const body = { model, messages: [{ role: 'user', content: 'hi' }] };
    let answer;
    if (stream) {
      const runner = client.chat.completions.stream({ ...body, stream_options: { include_usage: true } });
      runner.on('content', (text) => (got.text += text));
      answer = await runner.finalChatCompletion();
    } else {
      answer = await client.chat.completions.create(body);
      got.text = answer.choices[0].message.content ?? '';
    }
    got.calls = (answer.choices[0].message.tool_calls ?? []).map((c) => [c.id, c.function.name, c.function.arguments]);
    got.tokens = [answer.usage.prompt_tokens, answer.usage.completion_tokens];
  },
  async responses(got, model, stream) {
    const client = openAI();
    let answer;
    if (stream) {
      for await (const event of await client.responses.create({ model, input: 'hi', stream })) {
        if (event.type === 'response.output_text.delta') got.text += event.delta;
        if (event.type === 'response.failed') throw new Error(event.response.error.message);
        answer = event.response ?? answer;
      }
    } else {
      answer = await client.responses.create({ model, input: 'hi' });
      got.text = answer.output_text;
    }
    got.calls = answer.output.filter((item) => item.type === 'function_call').map((item) => [item.call_id, item.name, item.arguments]);
    got.tokens = [answer.usage.input_tokens, answer.usage.output_tokens];
  },
  async anthropic(got, model, stream) {
    const client = claude();
    const body = { model, max_tokens: 9, messages: [{ role: 'user', content: 'hi' }] };
    let answer;
    if (stream) {
      const runner = client.messages.stream(body);
      runner.on('text', (text) => (got.text += text));
      answer = await runner.finalMessage();
    } else {
      answer = await client.messages.create(body);
      got.text = answer.content.map((block) => block.text ?? '').join('');
    }
    got.calls = answer.content.filter((block) => block.type === 'tool_use').map((block) => [block.id, block.name, JSON.stringify(block.input)]);
    got.tokens = [answer.usage.input_tokens, answer.usage.output_tokens];
  },
  async gemini(got, model, stream) {
    const client = google();
    const add = (chunk) => {
      for (const part of chunk.candidates?.[0]?.content?.parts ?? []) {
        got.text += part.text ?? '';
        if (part.functionCall) got.calls.push([part.functionCall.id, part.functionCall.name, JSON.stringify(part.functionCall.args)]);
      }
      const usage = chunk.usageMetadata;
      if (usage) got.tokens = [usage.promptTokenCount, usage.candidatesTokenCount + (usage.thoughtsTokenCount ?? 0)];
    };
    if (stream) for await (const chunk of await client.models.generateContentStream({ model, contents: 'hi' })) add(chunk);
    else add(await client.models.generateContent({ model, contents: 'hi' }));
  },
};

async function odd() {
  const all = {};
  for (const one of model.split(',')) {
    const [name, form] = one.split('.');
    for (const [api, read] of Object.entries(understand)) {
      const got = { text: '', calls: [], tokens: [] };
      await read(got, name, form !== 'json').catch((e) => { got.error = `${e.status ?? ''} ${e.message}`; });
      all[`${one} ${api}`] = got;
    }
  }
  return all;
}

// The model is a recursive language model.
async function deep() {
  const client = openAI();
  const got = {};
  const whole = await client.chat.completions.create(say('How many lines?'));
  got.whole = [whole.choices[0].message.content, whole.choices[0].finish_reason, whole.usage.prompt_tokens > 100];
  got.streamed = '';
  const stream = client.chat.completions.stream(say('x'.repeat(100000), { stream_options: { include_usage: true } }));
  for await (const chunk of stream) got.streamed += chunk.choices[0]?.delta?.content ?? '';
  got.used = (await stream.finalChatCompletion()).usage.prompt_tokens > 100;
  const parsed = await client.chat.completions.parse(say('As JSON.', {
    response_format: { type: 'json_schema', json_schema: { name: 'n', strict: true, schema: { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] } } },
  }));
  got.parsed = parsed.choices[0].message.parsed;
  const response = await client.responses.create({ model, input: 'Again?' });
  got.response = response.output_text;
  got.thought = response.output.some((item) => item.type === 'reasoning');
  got.listed = (await client.models.list()).data.map((m) => m.id);
  return got;
}

async function abortDeep() {
  const controller = new AbortController();
  fetch(when).then(() => controller.abort()); // it answers when the provider is asked
  return openAI().chat.completions.create(say('wait'), { signal: controller.signal }).then(() => ({}), (e) => ({ error: e.constructor.name }));
}

async function jayson() {
  const client = load('jayson').client.http({ port: Number(where), host: '127.0.0.1', path: '/rpc' });
  const call = (method, params) =>
    new Promise((resolve, reject) => client.request(method, params, (err, answer) => (err ? reject(err) : resolve(answer))));
  const got = {};
  got.sent = (await call('send', { content: 'hello', request_id: 'r' })).result;
  got.context = (await call('get_context', {})).result;
  got.unknown = (await call('nothing', {})).error;
  got.missing = (await call('send', {})).error;
  return got;
}

({ openai, anthropic, count, loopChat, loopResponses, loopAnthropic, loopGemini, embed, abortOpenAI, abortResponses, abortAnthropic, abortGemini, odd, deep, abortDeep, jayson })[what]().then(
  (got) => process.stdout.write(JSON.stringify(got)),
  (err) => { console.error(err); process.exit(1); },
);
