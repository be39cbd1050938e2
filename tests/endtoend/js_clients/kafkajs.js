import kafkajs from 'kafkajs'
import snappy from 'kafkajs-snappy'

import { Collector, numbered, RECORDS, REST, SENDS, VALUE_BYTES } from './shared.js'

const { CompressionCodecs, CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = kafkajs
CompressionCodecs[CompressionTypes.Snappy] = snappy

function connect(where, clientId = 'kafkajs-test') {
  const settings = { clientId, brokers: where.bootstrap.split(','), logLevel: logLevel.ERROR }
  if (where.ca) settings.ssl = { ca: [where.ca] }
  if (where.mechanism) {
    const { user: username, password } = where
    settings.sasl = { mechanism: where.mechanism.toLowerCase(), username, password }
  }
  return new Kafka(settings)
}

async function create(kafka, where, topic, numPartitions = 1, configEntries = []) {
  const admin = kafka.admin()
  await admin.connect()
  await admin.createTopics({
    topics: [{ topic, numPartitions, replicationFactor: where.replicas, configEntries }],
    waitForLeaders: true
  })
  return admin
}

async function write(kafka, topic, messages, settings = {}) {
  const producer = kafka.producer({ allowAutoTopicCreation: false })
  await producer.connect()
  await producer.send({ topic, messages, acks: -1, ...settings })
  await producer.disconnect()
}

// Reads `wanted` records as this group, commits each of them, and leaves.
async function read(kafka, topic, groupId, wanted) {
  const consumer = kafka.consumer({ groupId, maxWaitTimeInMs: 200 })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  const collector = new Collector(wanted)
  await consumer.run({
    autoCommit: false,
    eachBatch: async ({ batch, resolveOffset }) => {
      for (const message of batch.messages) {
        collector.take(message.value.toString())
        resolveOffset(message.offset)
      }
      const offset = `${BigInt(batch.lastOffset()) + 1n}`
      await consumer.commitOffsets([{ topic, partition: batch.partition, offset }])
    }
  })
  const values = await collector.done
  // It waits for the batch at hand, and so for its commit.
  await consumer.stop()
  await consumer.disconnect()
  return values
}

export async function groups(where) {
  const kafka = connect(where)
  const topic = `${where.prefix}kafkajs`
  const admin = await create(kafka, where, topic, 3)
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 })
  await producer.connect()
  await producer.send({ topic, messages: numbered(RECORDS) })
  await producer.disconnect()
  const first = await read(kafka, topic, topic, RECORDS)
  const [offsets] = await admin.fetchOffsets({ groupId: topic, topics: [topic] })
  const committed = offsets.partitions.reduce((sum, each) => sum + Number(each.offset), 0)
  await write(kafka, topic, numbered(REST, RECORDS))
  const second = await read(kafka, topic, topic, REST)
  await admin.disconnect()
  return { produced: RECORDS, read: new Set(first).size, committed, rest: second.map(Number).sort((a, b) => a - b) }
}

export async function throttle(where) {
  const kafka = connect(where, 'greedy-kafkajs')
  const topic = `${where.prefix}greedy-kafkajs`
  await (await create(kafka, where, topic)).disconnect()
  const producer = kafka.producer()
  await producer.connect()
  const begin = performance.now()
  for (let sent = 0; sent < SENDS; sent++) {
    await producer.send({ topic, messages: [{ key: `${sent}`, value: Buffer.alloc(VALUE_BYTES) }] })
  }
  const seconds = (performance.now() - begin) / 1_000
  await producer.disconnect()
  const values = await read(connect(where), topic, topic, SENDS)
  return { seconds, read: values.reduce((sum, each) => sum + each.length, 0) }
}

export async function compressions(where) {
  const kafka = connect(where)
  const topic = `${where.prefix}kafkajs-compressions`
  await (await create(kafka, where, topic)).disconnect()
  const codecs = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy }
  let from = 0
  for (const compression of Object.values(codecs)) {
    await write(kafka, topic, numbered(RECORDS, from), { compression })
    from += RECORDS
  }
  const values = await read(kafka, topic, topic, from)
  return { codecs: Object.keys(codecs), read: new Set(values).size }
}

export async function transactions(where) {
  const kafka = connect(where)
  const topic = `${where.prefix}kafkajs-transactions`
  await (await create(kafka, where, topic)).disconnect()
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1, transactionalId: topic })
  await producer.connect()
  const aborted = await producer.transaction()
  await aborted.send({ topic, messages: numbered(RECORDS) })
  await aborted.abort()
  const committed = await producer.transaction()
  await committed.send({ topic, messages: numbered(RECORDS, RECORDS) })
  await committed.commit()
  await producer.disconnect()
  const values = await read(kafka, topic, topic, RECORDS)
  return { committed: new Set(values).size, first: Math.min(...values.map(Number)) }
}

export async function admin(where) {
  const kafka = connect(where)
  const topic = `${where.prefix}kafkajs-admin`
  const admin = await create(kafka, where, topic, 3, [{ name: 'retention.ms', value: '123456' }])
  const described = await admin.describeConfigs({
    resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configNames: ['retention.ms'] }]
  })
  await admin.createPartitions({ topicPartitions: [{ topic, count: 4 }] })
  const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
  await admin.deleteTopics({ topics: [topic] })
  const left = (await admin.listTopics()).includes(topic)
  await admin.disconnect()
  const [entry] = described.resources[0].configEntries
  return { retention: entry.configValue, partitions: topics[0].partitions.length, left }
}
