// What the tests do with KafkaJS and Platformatic's client: one command each, whose result is a line of JSON.
//
//	main.js kafkajs|platformatic groups|throttle|compressions|transactions|admin WHERE
//
// WHERE is JSON: {bootstrap, prefix, replicas}, with {mechanism, user, password} a login, with {ca} TLS; prefix begins
// the names of topics and groups.
//
// groups: produces 1,000 records, reads them as a group, commits, produces ten more, and reads as the same group again.
// throttle: produces thirty times 20 kB as greedy-CLIENT, which has a quota, and tells how long that took and what is
// read back.
// compressions: writes 1,000 records in each compression that the client has, and reads them.
// transactions: commits one transaction and aborts another, and reads what was committed.
// admin: creates a topic with a config, describes it, adds a partition, and deletes the topic.

const [client, what, where] = process.argv.slice(2)
const commands = await import(`./${client}.js`)
try {
  console.log(JSON.stringify(await commands[what](JSON.parse(where))))
} catch (error) {
  for (const line of reasons(error)) console.error(line)
  process.exit(1)
}
process.exit(0)

// The messages of an error and of all that led to it: Node shows three levels.
function * reasons(error) {
  yield `${error.stack}`
  for (const each of [error.cause, ...error.errors ?? []]) if (each) yield * reasons(each)
}
