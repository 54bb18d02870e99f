//! The JSON forms of jobs and of a queue's numbers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::body::{Body, Fields};
use crate::job::{DeadLetter, Delivery, DoneJob, InFlightJob, JobId, WaitingJob};
use crate::outcome::OfferOutcome;
use crate::settings::micros;
use crate::stats::Stats;

/// The content of a job, as one entry of an object.
fn body_entry<M: SerializeMap>(body: &Body, map: &mut M) -> Result<(), M::Error> {
    match body {
        Body::Fields(fields) => map.serialize_entry("fields", &Fields(fields)),
        Body::Bytes(bytes) => map.serialize_entry("base64", &STANDARD.encode(bytes)),
    }
}

/// `id`, `delivery`, and `fields` as an object or `base64` of the bytes.
impl Serialize for Delivery {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(3))?;
        map.serialize_entry("id", &self.id.to_string())?;
        map.serialize_entry("delivery", &self.attempt)?;
        body_entry(&self.body, &mut map)?;
        map.end()
    }
}

/// The client of a job, if it has one.
fn client_entry<M: SerializeMap>(client: Option<&str>, map: &mut M) -> Result<(), M::Error> {
    client.map_or(Ok(()), |client| map.serialize_entry("client", client))
}

/// `id`, `deliveries`, `why` (or null), `client` if it has one, and the content as for
/// [`Delivery`].
impl Serialize for JobId {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl Serialize for DeadLetter {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(4))?;
        map.serialize_entry("id", &self.id.to_string())?;
        map.serialize_entry("deliveries", &self.deliveries)?;
        map.serialize_entry("why", &self.reason)?;
        client_entry(self.client(), &mut map)?;
        body_entry(&self.body, &mut map)?;
        map.end()
    }
}

/// `id`, `age_us`, `client` if it has one, and the content as for [`Delivery`].
impl Serialize for WaitingJob {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(3))?;
        map.serialize_entry("id", &self.id.to_string())?;
        map.serialize_entry("age_us", &micros(self.age))?;
        client_entry(self.client(), &mut map)?;
        body_entry(&self.body, &mut map)?;
        map.end()
    }
}

/// `id`, `deliveries`, `held`, `age_us`, `back_us`, `why` (or null), `client` if it has one, and
/// the content as for [`Delivery`].
impl Serialize for InFlightJob {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(7))?;
        map.serialize_entry("id", &self.id.to_string())?;
        map.serialize_entry("deliveries", &self.deliveries)?;
        map.serialize_entry("held", &self.is_held)?;
        map.serialize_entry("age_us", &micros(self.age))?;
        map.serialize_entry("back_us", &micros(self.due_in))?;
        map.serialize_entry("why", &self.reason)?;
        client_entry(self.client(), &mut map)?;
        body_entry(&self.body, &mut map)?;
        map.end()
    }
}

/// `id`, `deliveries`, and the content as for [`Delivery`].
impl Serialize for DoneJob {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(3))?;
        map.serialize_entry("id", &self.id.to_string())?;
        map.serialize_entry("deliveries", &self.deliveries)?;
        body_entry(&self.body, &mut map)?;
        map.end()
    }
}

/// `outcome`: `accepted` with `id` and `depth`, `known` with `id`, `full` with `depth` and
/// `retry_after_us` (or null), or `client_full` with `of_client` and `retry_after_us`, which is
/// null.
impl Serialize for OfferOutcome {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        match self {
            Self::Accepted { id, depth } => {
                map.serialize_entry("outcome", "accepted")?;
                map.serialize_entry("id", &id.to_string())?;
                map.serialize_entry("depth", depth)?;
            }
            Self::Duplicate { id } => {
                map.serialize_entry("outcome", "known")?;
                map.serialize_entry("id", &id.to_string())?;
            }
            Self::Full { depth, retry_after } => {
                map.serialize_entry("outcome", "full")?;
                map.serialize_entry("depth", depth)?;
                map.serialize_entry("retry_after_us", &retry_after.map(micros))?;
            }
            Self::ClientFull { of_client } => {
                map.serialize_entry("outcome", "client_full")?;
                map.serialize_entry("of_client", of_client)?;
                map.serialize_entry("retry_after_us", &None::<u64>)?;
            }
        }
        map.end()
    }
}

/// The fields by name; `oldest_us` in microseconds, or null.
impl Serialize for Stats {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("waiting", &self.waiting)?;
        map.serialize_entry("in_flight", &self.in_flight)?;
        map.serialize_entry("dead", &self.dead)?;
        map.serialize_entry("oldest_us", &self.oldest.map(micros))?;
        map.serialize_entry("accepted", &self.accepted)?;
        map.serialize_entry("refused", &self.refused)?;
        map.serialize_entry("known", &self.duplicates)?;
        map.serialize_entry("delivered", &self.delivered)?;
        map.serialize_entry("redelivered", &self.redelivered)?;
        map.serialize_entry("done", &self.done)?;
        map.serialize_entry("too_old", &self.expired)?;
        map.serialize_entry("died", &self.died)?;
        map.serialize_entry("paused", &self.paused)?;
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Job, JobId};

    fn taken(body: Body) -> String {
        serde_json::to_string(&Delivery { id: JobId::new(17, 3), attempt: 2, body }).unwrap()
    }

    #[test]
    fn fields_keep_their_order_and_their_text() {
        let json = r#"{"z": "a\"\n\u0000ü", "a": 1.50, "b": true, "": ""}"#;
        let body = Body::from_json(json.as_bytes()).unwrap();
        let fields = [("z", "a\"\n\0ü"), ("a", "1.50"), ("b", "true"), ("", "")];
        assert_eq!(body.fields(), fields.map(|(n, v)| (n.to_owned(), v.to_owned())));
        let written = r#"{"z":"a\"\n\u0000ü","a":"1.50","b":"true","":""}"#;
        assert_eq!(
            taken(body.clone()),
            format!(r#"{{"id":"17-3","delivery":2,"fields":{written}}}"#)
        );
        assert_eq!(Body::from_json(written.as_bytes()).unwrap(), body);
        let bytes = Body::Bytes([0, 255].as_slice().into());
        assert_eq!(taken(bytes), r#"{"id":"17-3","delivery":2,"base64":"AP8="}"#);
    }

    #[test]
    fn what_is_no_job_is_told() {
        for (json, says) in [
            ("", "EOF"),
            ("[]", "expected a JSON object of fields"),
            ("{} x", "trailing characters"),
            (r#"{"a": null}"#, "the field `a` is null, a list or an object"),
            (r#"{"a": {}}"#, "the field `a` is null"),
            (r#"{"a": 1"#, "EOF"),
        ] {
            let error = Job::from_json(json.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(says), "{json}: {error}");
        }
    }
}
