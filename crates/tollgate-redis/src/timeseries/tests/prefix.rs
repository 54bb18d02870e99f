//! Series of an environment: their keys, their label, and who finds them.

use super::*;
use crate::key::KeyPrefix;

#[tokio::test]
async fn a_prefix_is_in_key_and_label_and_finds_its_own() {
    let found = |key: &str| format!("*3\r\n${}\r\n{key}\r\n*0\r\n*0\r\n", key.len());
    // RedisTimeSeries takes `labels` for an option, so its label is another word.
    for (name, value) in [("staging", "staging"), ("labels", "labels_")] {
        let end = format!("LABELS data hits outcome yes prefix {value}");
        let create =
            format!("TS.CREATE {name}:hits:yes RETENTION 60000 DUPLICATE_POLICY SUM {end}");
        let add = format!("TS.ADD {name}:hits:yes 1 1 RETENTION 60000 ON_DUPLICATE SUM {end}");
        let query_of = format!(
            "TS.MRANGE - + WITHLABELS AGGREGATION SUM 1000 FILTER data=hits prefix={value}"
        );
        let own = format!("{name}:hits:yes");
        let both = format!("*2\r\n{}{}", found(&own), found("labels_:hits:yes"));
        let server = Scripted::start(
            greeting()
                .into_iter()
                .chain([
                    hear(format!("{}{}", resp(&create), resp(&add))),
                    say("+OK\r\n:1\r\n"),
                    hear(resp(&query_of)),
                    say(both),
                ])
                .collect(),
        );
        let options = server.options().prefix(KeyPrefix::new(name).unwrap());
        let series = TimeSeries::connect(options).await.unwrap();
        let yes = hits("yes");
        let sample = Sample { series: &yes, at_ms: 1, value: 1 };
        assert_eq!(series.record(&[sample]).await, Ok(taken(1)));
        assert_eq!(short(&series.range(&query(1_000)).await.unwrap()), [own]);
        drop(series);
        server.done().await;
    }
}
