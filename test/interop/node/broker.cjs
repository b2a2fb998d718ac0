// The official SDKs of OpenAI and Anthropic as clients of the broker's OpenAI
// door, and jayson of its nexus door. Writes what they got as JSON.
//
//     node broker.cjs NODE_MODULES openai|anthropic|count URL MODEL
//     node broker.cjs NODE_MODULES abortOpenAI|abortAnthropic URL MODEL
//     node broker.cjs NODE_MODULES jayson PORT
const path = require('path');

const [modules, what, where, model] = process.argv.slice(2);
const load = (name) => require(path.join(modules, name));

const openAI = () => new (load('openai'))({ baseURL: `${where}/v1`, apiKey: 'unused', maxRetries: 0 });
const claude = () => new (load('@anthropic-ai/sdk'))({ baseURL: where, apiKey: 'unused', maxRetries: 0 });
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

// Each abort waits for the first text.
async function abortOpenAI() {
  for await (const chunk of await openAI().chat.completions.create(say('hello', { stream: true }))) {
    return chunk.choices[0].delta; // leaving the loop aborts
  }
}

async function abortAnthropic() {
  const stream = claude().messages.stream(ask('hello'));
  const got = {};
  stream.on('text', (text) => { got.content = text; stream.abort(); });
  await stream.done().catch((e) => (got.error = e.constructor.name));
  return got;
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

({ openai, anthropic, count, abortOpenAI, abortAnthropic, jayson })[what]().then(
  (got) => process.stdout.write(JSON.stringify(got)),
  (err) => { console.error(err); process.exit(1); },
);
