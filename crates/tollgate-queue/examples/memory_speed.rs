//! How many jobs a second go through a queue in memory: `cargo run --profile dist -p tollgate-queue
//! --example memory_speed`. The bar is 1,000,000 offers and takes, each, in one thread.

use std::time::{Duration, Instant};

use tollgate_queue::{ConsumerSettings, Error, Job, MemoryQueues, ProducerSettings, Queue};

const JOBS: usize = 1_000_000;
const RUNS: usize = 5;

fn main() -> Result<(), Error> {
    println!("{JOBS} jobs of one field, {RUNS} runs, medians\n");
    println!("| taken at once | offers a second | takes a second | done a second |");
    println!("| --- | --- | --- | --- |");
    for batch in [1, 64] {
        let mut figures = [const { Vec::new() }; 3];
        for _ in 0..RUNS {
            for (all, took) in figures.iter_mut().zip(run(batch)?) {
                all.push(JOBS as f64 / took.as_secs_f64());
            }
        }
        let [offers, takes, done] = figures.map(|mut all: Vec<f64>| {
            all.sort_by(f64::total_cmp);
            all.get(RUNS / 2).copied().unwrap_or(f64::NAN)
        });
        println!("| {batch} | {offers:.0} | {takes:.0} | {done:.0} |");
    }
    Ok(())
}

fn run(batch: usize) -> Result<[Duration; 3], Error> {
    let queue = Queue::new(MemoryQueues::new(), "q")?;
    let producer = queue.producer(ProducerSettings::new(JOBS as u64))?;
    let consumer = queue.consumer(ConsumerSettings::new())?;
    let job = Job::new().field("to", "ann@example.com");
    let begin = Instant::now();
    now(async {
        for _ in 0..JOBS {
            producer.offer(&job).await?;
        }
        Ok(())
    })?;
    let offered = begin.elapsed();
    let (mut taken, mut ids) = (Vec::with_capacity(JOBS), Vec::with_capacity(JOBS));
    now(async {
        while taken.len() < JOBS {
            taken.extend(consumer.take("w", batch).await?.jobs);
        }
        Ok(())
    })?;
    let took = begin.elapsed() - offered;
    ids.extend(taken.iter().map(|job| job.id));
    let begin = Instant::now();
    now(async {
        for ids in ids.chunks(batch) {
            consumer.ack(ids).await?;
        }
        Ok(())
    })?;
    Ok([offered, took, begin.elapsed()])
}

/// Runs what never waits.
fn now(work: impl Future<Output = Result<(), Error>>) -> Result<(), Error> {
    let waits = || Err(Error::Invalid("a queue in memory waits".to_owned()));
    tollgate::at_once(work).unwrap_or_else(waits)
}
