import {
  Admin, compressionsAlgorithms, ConfigResourceTypes, Consumer, FetchIsolationLevels, MessagesStreamModes, Producer,
  stringDeserializers, stringSerializers
} from '@platformatic/kafka'

import { Collector, numbered, RECORDS, REST, SENDS, VALUE_BYTES } from './shared.js'

function settings(where, clientId = 'platformatic-test') {
  const found = { clientId, bootstrapBrokers: where.bootstrap.split(','), timeout: 30_000 }
  if (where.ca) found.tls = { ca: [where.ca] }
  if (where.mechanism) {
    const { mechanism, user: username, password } = where
    found.sasl = { mechanism, username, password }
  }
  return found
}

async function create(where, topic, partitions = 1, configs = []) {
  const admin = new Admin(settings(where))
  await admin.createTopics({ topics: [topic], partitions, replicas: where.replicas, configs })
  return admin
}

async function write(where, topic, messages, more = {}) {
  const producer = new Producer({ ...settings(where), serializers: stringSerializers, ...more })
  await producer.send({ messages: messages.map(each => ({ topic, ...each })) })
  await producer.close()
}

// Reads `wanted` records as this group, commits each of them, and leaves.
async function read(where, topic, groupId, wanted) {
  const consumer = new Consumer({
    ...settings(where), groupId, deserializers: stringDeserializers, maxWaitTime: 200, autocommit: false,
    isolationLevel: FetchIsolationLevels.READ_COMMITTED
  })
  const stream = await consumer.consume({
    topics: [topic], mode: MessagesStreamModes.COMMITTED, fallbackMode: 'earliest'
  })
  const collector = new Collector(wanted)
  const last = new Map()
  stream.on('data', message => {
    collector.take(message.value)
    last.set(message.partition, message.offset)
  })
  const values = await collector.done
  const offsets = [...last].map(([partition, offset]) => ({ topic, partition, offset: offset + 1n, leaderEpoch: -1 }))
  await consumer.commit({ offsets })
  await stream.close()
  await consumer.close(true)
  return values
}

export async function groups(where) {
  const topic = `${where.prefix}platformatic`
  const admin = await create(where, topic, 3)
  await write(where, topic, numbered(RECORDS), { idempotent: true })
  const first = await read(where, topic, topic, RECORDS)
  const [group] = await admin.listConsumerGroupOffsets({ groups: [topic] })
  const committed = group.topics[0].partitions.reduce((sum, each) => sum + Number(each.committedOffset), 0)
  await write(where, topic, numbered(REST, RECORDS))
  const second = await read(where, topic, topic, REST)
  await admin.close()
  return { produced: RECORDS, read: new Set(first).size, committed, rest: second.map(Number).sort((a, b) => a - b) }
}

export async function throttle(where) {
  const topic = `${where.prefix}greedy-platformatic`
  await (await create(where, topic)).close()
  const producer = new Producer({ ...settings(where, 'greedy-platformatic'), serializers: stringSerializers })
  const begin = performance.now()
  for (let sent = 0; sent < SENDS; sent++) {
    await producer.send({ messages: [{ topic, key: `${sent}`, value: '\0'.repeat(VALUE_BYTES) }] })
  }
  const seconds = (performance.now() - begin) / 1_000
  await producer.close()
  const values = await read(where, topic, topic, SENDS)
  return { seconds, read: values.reduce((sum, each) => sum + each.length, 0) }
}

export async function compressions(where) {
  const topic = `${where.prefix}platformatic-compressions`
  await (await create(where, topic)).close()
  // Node has Zstandard from version 22.15 on.
  const codecs = Object.keys(compressionsAlgorithms).filter(each => compressionsAlgorithms[each].available)
  let from = 0
  for (const compression of codecs) {
    await write(where, topic, numbered(RECORDS, from), { compression })
    from += RECORDS
  }
  const values = await read(where, topic, topic, from)
  return { codecs, read: new Set(values).size }
}

export async function transactions(where) {
  const topic = `${where.prefix}platformatic-transactions`
  await (await create(where, topic)).close()
  const producer = new Producer({
    ...settings(where), serializers: stringSerializers, idempotent: true, transactionalId: topic
  })
  const messages = from => numbered(RECORDS, from).map(each => ({ topic, ...each }))
  const aborted = await producer.beginTransaction()
  await aborted.send({ messages: messages(0) })
  await aborted.abort()
  const committed = await producer.beginTransaction()
  await committed.send({ messages: messages(RECORDS) })
  await committed.commit()
  await producer.close()
  const values = await read(where, topic, topic, RECORDS)
  return { committed: new Set(values).size, first: Math.min(...values.map(Number)) }
}

export async function admin(where) {
  const topic = `${where.prefix}platformatic-admin`
  const admin = await create(where, topic, 3, [{ name: 'retention.ms', value: '123456' }])
  const described = await admin.describeConfigs({
    resources: [{ resourceType: ConfigResourceTypes.TOPIC, resourceName: topic, configurationKeys: ['retention.ms'] }]
  })
  await admin.createPartitions({ topics: [{ name: topic, count: 4 }] })
  const { topics } = await admin.metadata({ topics: [topic], forceUpdate: true })
  const partitions = topics.get(topic).partitionsCount
  await admin.deleteTopics({ topics: [topic] })
  const left = (await admin.listTopics()).includes(topic)
  await admin.close()
  return { retention: described[0].configs[0].value, partitions, left }
}
