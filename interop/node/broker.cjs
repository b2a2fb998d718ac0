// The official openai SDK as a client of the broker's OpenAI door, and jayson of
// its nexus door. Writes what they got as JSON.
//
//     node broker.cjs NODE_MODULES openai BASE_URL MODEL
//     node broker.cjs NODE_MODULES jayson PORT
const path = require('path');

const [modules, what, where, model] = process.argv.slice(2);
const load = (name) => require(path.join(modules, name));

async function openai() {
  const OpenAI = load('openai');
  const client = new OpenAI({ baseURL: where, apiKey: 'unused', maxRetries: 0 });
  const say = (content, more) => ({ model, messages: [{ role: 'user', content }], ...more });
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
  const aborted = client.chat.completions.create(say('hello', { stream: true }));
  (await aborted).controller.abort();
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

({ openai, jayson })[what]().then(
  (got) => process.stdout.write(JSON.stringify(got)),
  (err) => { console.error(err); process.exit(1); },
);
