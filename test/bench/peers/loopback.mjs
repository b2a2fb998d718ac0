// Has what node runs listen on this machine only, and say where: node --import=…/loopback.mjs PROGRAM
import net from 'node:net'

const { listen } = net.Server.prototype
net.Server.prototype.listen = function (options, ...rest) {
  const where = typeof options === 'object' ? options : { port: options }
  this.once('listening', () => console.log(`listening on 127.0.0.1:${this.address().port}`))
  return listen.call(this, { ...where, host: '127.0.0.1' }, ...rest.filter((a) => typeof a === 'function'))
}
