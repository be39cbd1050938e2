// Sends a megabyte until the broker throttles this client, and prints for how long.
//
//     npm install kafkajs
//     node throttled.mjs 127.0.0.1:9092 visitor

import { Kafka, logLevel } from "kafkajs";

const [bootstrap, clientId] = process.argv.slice(2);

// KafkaJS says throttle_time_ms of an answer in its log, and nowhere else.
let throttle;
const logCreator = () => ({ log }) => {
  throttle ??= /throttling in effect for (\d+)ms/.exec(log.message)?.[1];
};

const kafka = new Kafka({ brokers: [bootstrap], clientId, logLevel: logLevel.DEBUG, logCreator });
const producer = kafka.producer();
await producer.connect();
for (let sent = 0; sent < 100 && throttle === undefined; sent++) {
  await producer.send({ topic: "greetings", messages: [{ value: Buffer.alloc(10_000) }] });
}
console.log(throttle === undefined ? "not throttled" : `throttled for ${throttle} ms`);
process.exitCode = throttle === undefined ? 1 : 0;
await producer.disconnect();
