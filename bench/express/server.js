// The same routes from memory, as one writes them with Express 4: `node server.js PORT FILE`, FILE as GET /api/instances
// answers it. ETags are off, because Corral sends none.
const crypto = require('crypto')
const fs = require('fs')
const express = require('express')

const [port, file] = process.argv.slice(2)
const instances = new Map(JSON.parse(fs.readFileSync(file)).instances.map((instance) => [instance.id, instance]))
const template = instances.values().next().value
const newest = [...instances.keys()]
const followers = new Set()
let seq = 0

const app = express()
app.set('etag', false)
app.use(express.json())

app.get('/api/instances', (request, response) => {
  const limit = Number(request.query.limit ?? 100)
  const offset = Number(request.query.offset ?? 0)
  const shown = newest.slice(offset, offset + limit).map((id) => instances.get(id))
  response.json({ instances: shown, total: instances.size, limit, offset })
})

app.get('/api/instances/:id', (request, response) => {
  const found = instances.get(request.params.id)
  if (found) response.json(found)
  else response.status(404).json({ error: { code: 'INSTANCE_NOT_FOUND' } })
})

app.post('/api/instances', (request, response) => {
  const { name, productName, templateId } = request.body
  if (![name, productName, templateId].every((text) => typeof text === 'string' && text)) {
    return response.status(400).json({ error: { code: 'VALIDATION_ERROR' } })
  }
  const id = `inst_${crypto.randomBytes(13).toString('hex')}`
  const operationId = `op_${crypto.randomBytes(13).toString('hex')}`
  const createdAt = new Date().toISOString()
  instances.set(id, { ...template, id, name, productName, templateId, createdAt, status: 'creating' })
  newest.unshift(id)
  seq += 1
  const event = { id: `evt_${seq}`, seq, event: 'instance.created', instanceId: id, status: 'creating', at: createdAt }
  const frame = `id: ${seq}\ndata: ${JSON.stringify(event)}\n\n`
  for (const follower of followers) follower.write(frame)
  response.status(201).json({
    instanceId: id,
    status: 'creating',
    message: 'Instance creation initiated successfully',
    estimatedReadyTime: createdAt,
    operationId,
    region: template.region,
    productId: template.productId,
    price: template.price
  })
})

app.get('/api/events/stream', (request, response) => {
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' })
  response.write('retry: 1000\n\n')
  followers.add(response)
  request.on('close', () => followers.delete(response))
})

app.listen(Number(port), '127.0.0.1')
