//! What the tests do with rskafka: one command each, whose result is a line of JSON.
//!
//!     rust_clients rskafka records|throttle|resend|compressions|admin WHERE
//!
//! WHERE is JSON: {bootstrap, prefix, replicas}, with {mechanism, user, password} a login, with {ca} TLS; prefix begins
//! the names of topics. Without patience_s the client tries for ever. rskafka has no groups.
//!
//! records: produces 1,000 records, lists the offsets, reads them, deletes the first ten, and lists the offsets again.
//! throttle: produces thirty times 20 kB, reads them as greedy-rskafka, which has a quota, and tells how long that took.
//! resend: produces two values of 300 kB as greedy-rskafka, and tells how many are there.
//! compressions: writes 1,000 records in each compression, and reads them.
//! admin: creates a topic, finds it, deletes it.

use std::{
    collections::BTreeMap, collections::BTreeSet, error::Error, sync::Arc, time::Duration,
    time::Instant,
};

use chrono::Utc;
use rskafka::{
    BackoffConfig,
    client::{
        Client, ClientBuilder, Credentials, SaslConfig,
        partition::{Compression, OffsetAt, PartitionClient, UnknownTopicHandling},
    },
    record::Record,
};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject},
};
use serde_json::{Value, json};

const RECORDS: i64 = 1_000;
const TIMEOUT_MS: i32 = 30_000;
const GREEDY: &str = "greedy-rskafka";
const VALUE_BYTES: usize = 20_000;
const SENDS: u8 = 30;
const LARGE_BYTES: usize = 300_000;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let at: Value = serde_json::from_str(&arguments[3])?;
    let result = match arguments[2].as_str() {
        "records" => records(&at).await?,
        "throttle" => throttle(&at).await?,
        "resend" => resend(&at).await?,
        "compressions" => compressions(&at).await?,
        "admin" => admin(&at).await?,
        other => return Err(format!("unknown command {other}").into()),
    };
    println!("{result}");
    Ok(())
}

fn text(at: &Value, key: &str) -> String {
    at[key].as_str().unwrap_or_default().to_owned()
}

async fn connect(at: &Value, client_id: &str) -> Result<Client> {
    let bootstrap = text(at, "bootstrap")
        .split(',')
        .map(str::to_owned)
        .collect();
    let mut builder = ClientBuilder::new(bootstrap).client_id(client_id);
    if let Some(seconds) = at["patience_s"].as_u64() {
        let deadline = Some(Duration::from_secs(seconds));
        builder = builder.backoff_config(BackoffConfig {
            deadline,
            ..Default::default()
        });
    }
    let credentials = Credentials::new(text(at, "user"), text(at, "password"));
    builder = match text(at, "mechanism").as_str() {
        "" => builder,
        "PLAIN" => builder.sasl_config(SaslConfig::Plain(credentials)),
        "SCRAM-SHA-256" => builder.sasl_config(SaslConfig::ScramSha256(credentials)),
        "SCRAM-SHA-512" => builder.sasl_config(SaslConfig::ScramSha512(credentials)),
        other => return Err(format!("unknown mechanism {other}").into()),
    };
    let ca = text(at, "ca");
    if !ca.is_empty() {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(ca.as_bytes())?)?;
        let config = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        builder = builder.tls_config(Arc::new(config));
    }
    Ok(builder.build().await?)
}

async fn create(client: &Client, at: &Value, topic: &str) -> Result<()> {
    let replicas = at["replicas"].as_i64().unwrap_or(1) as i16;
    Ok(client
        .controller_client()?
        .create_topic(topic, 1, replicas, TIMEOUT_MS)
        .await?)
}

async fn partition(client: &Client, topic: &str) -> Result<PartitionClient> {
    Ok(client
        .partition_client(topic, 0, UnknownTopicHandling::Retry)
        .await?)
}

fn record(value: Vec<u8>) -> Record {
    Record {
        key: None,
        value: Some(value),
        headers: BTreeMap::new(),
        timestamp: Utc::now(),
    }
}

fn numbered(from: i64) -> Vec<Record> {
    (from..from + RECORDS)
        .map(|number| record(number.to_string().into_bytes()))
        .collect()
}

/// The values from this offset to the end, as it is when this begins.
async fn read(partition: &PartitionClient, from: i64) -> Result<Vec<Vec<u8>>> {
    let end = partition.get_offset(OffsetAt::Latest).await?;
    let mut values = Vec::new();
    let mut offset = from;
    while offset < end {
        let (records, _) = partition.fetch_records(offset, 1..1_000_000, 1_000).await?;
        for each in records {
            if each.offset >= offset {
                offset = each.offset + 1;
                values.push(each.record.value.unwrap_or_default());
            }
        }
    }
    Ok(values)
}

async fn records(at: &Value) -> Result<Value> {
    let client = connect(at, "rskafka-test").await?;
    let topic = format!("{}rskafka", text(at, "prefix"));
    create(&client, at, &topic).await?;
    let partition = partition(&client, &topic).await?;
    let offsets = partition
        .produce(numbered(0), Compression::NoCompression)
        .await?;
    let before = [
        partition.get_offset(OffsetAt::Earliest).await?,
        partition.get_offset(OffsetAt::Latest).await?,
    ];
    let values = read(&partition, 0).await?;
    let different: BTreeSet<_> = values.iter().collect();
    partition.delete_records(10, TIMEOUT_MS).await?;
    let after = [
        partition.get_offset(OffsetAt::Earliest).await?,
        partition.get_offset(OffsetAt::Latest).await?,
    ];
    Ok(json!({
        "acknowledged": offsets.len(), "before": before, "read": values.len(), "different": different.len(),
        "after": after,
    }))
}

async fn throttle(at: &Value) -> Result<Value> {
    let topic = format!("{}rskafka-throttle", text(at, "prefix"));
    let other = connect(at, "rskafka-test").await?;
    create(&other, at, &topic).await?;
    let partition_of_other = partition(&other, &topic).await?;
    for number in 0..SENDS {
        partition_of_other
            .produce(
                vec![record(vec![number; VALUE_BYTES])],
                Compression::NoCompression,
            )
            .await?;
    }
    let greedy = connect(at, GREEDY).await?;
    let begin = Instant::now();
    let values = read(&partition(&greedy, &topic).await?, 0).await?;
    let different: BTreeSet<_> = values.iter().collect();
    let bytes: usize = values.iter().map(Vec::len).sum();
    Ok(
        json!({"seconds": begin.elapsed().as_secs_f64(), "read": bytes, "different": different.len()}),
    )
}

async fn resend(at: &Value) -> Result<Value> {
    let topic = format!("{}rskafka-resend", text(at, "prefix"));
    let greedy = connect(at, GREEDY).await?;
    create(&greedy, at, &topic).await?;
    let partition_of_greedy = partition(&greedy, &topic).await?;
    for number in 0..2 {
        partition_of_greedy
            .produce(
                vec![record(vec![number; LARGE_BYTES])],
                Compression::NoCompression,
            )
            .await?;
    }
    let other = connect(at, "rskafka-test").await?;
    let values = read(&partition(&other, &topic).await?, 0).await?;
    let different: BTreeSet<_> = values.iter().collect();
    Ok(json!({"there": values.len(), "different": different.len()}))
}

async fn compressions(at: &Value) -> Result<Value> {
    let client = connect(at, "rskafka-test").await?;
    let topic = format!("{}rskafka-compressions", text(at, "prefix"));
    create(&client, at, &topic).await?;
    let partition = partition(&client, &topic).await?;
    let codecs = [
        ("none", Compression::NoCompression),
        ("gzip", Compression::Gzip),
        ("snappy", Compression::Snappy),
        ("lz4", Compression::Lz4),
        ("zstd", Compression::Zstd),
    ];
    let mut from = 0;
    for (_, codec) in codecs {
        partition.produce(numbered(from), codec).await?;
        from += RECORDS;
    }
    let values = read(&partition, 0).await?;
    let different: BTreeSet<_> = values.iter().collect();
    Ok(json!({"codecs": codecs.map(|each| each.0), "read": different.len()}))
}

async fn admin(at: &Value) -> Result<Value> {
    let client = connect(at, "rskafka-test").await?;
    let topic = format!("{}rskafka-admin", text(at, "prefix"));
    create(&client, at, &topic).await?;
    let found = client
        .list_topics()
        .await?
        .iter()
        .any(|each| each.name == topic);
    client
        .controller_client()?
        .delete_topic(&topic, TIMEOUT_MS)
        .await?;
    let left = client
        .list_topics()
        .await?
        .iter()
        .any(|each| each.name == topic);
    Ok(json!({"found": found, "left": left}))
}
