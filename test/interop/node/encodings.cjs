// A server that answers in every encoding that Node has, and a client of it. The
// server says where it listens; the client writes what it got as JSON.
//
//     node encodings.cjs NODE_MODULES serve
//     node encodings.cjs NODE_MODULES ask URL
const http = require('http');
const zlib = require('zlib');

const pack = { gzip: zlib.gzipSync, deflate: zlib.deflateSync, br: zlib.brotliCompressSync, zstd: zlib.zstdCompressSync };
const known = Object.keys(pack).filter((name) => pack[name]);

function serve() {
  const server = http.createServer((req, res) => {
    const encoding = req.url.slice(1);
    req.resume().on('end', () => {
      res.writeHead(200, { 'Content-Type': 'application/json', 'Content-Encoding': encoding });
      res.end(pack[encoding](JSON.stringify({ packed: encoding })));
    });
  });
  server.listen(0, '127.0.0.1', () => console.log(`listening on http://127.0.0.1:${server.address().port}`));
}

async function ask(url) {
  const got = {};
  for (const encoding of known) {
    const answer = await fetch(`${url}/${encoding}`, { method: 'POST', body: '{}', headers: { 'Content-Type': 'application/json' } });
    const bytes = Buffer.from(await answer.arrayBuffer());
    got[encoding] = bytes[0] === 0x7b ? JSON.parse(bytes).packed : 'left as it is';
  }
  console.log(JSON.stringify(got));
  process.exit(0);
}

const [, what, url] = process.argv.slice(2);
if (what === 'serve') serve();
else ask(url);
