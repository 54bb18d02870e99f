//! A request's question: its bounds, and how it treats the hits of each descriptor.

use core::time::Duration;

use tollgate::MAX_COST;
use tollgate_envoy::proto::descriptor::RateLimitDescriptor;
use tollgate_envoy::proto::service::RateLimitRequest;
use tonic::Status;

/// The most descriptors of a request: each is a check.
const MAX_DESCRIPTORS: usize = 100;

/// The most bytes of all keys and values of one descriptor.
const MAX_ENTRY_BYTES: usize = 64 * 1_024;

/// The effect of the hits of a descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Hits {
    /// They are charged.
    Charge(u64),
    /// No hits: nothing is charged, and it is admitted unless more is charged than the limit.
    Look,
    /// One hit that is judged and not charged, as Kuadrant asks.
    Peek,
    /// They are given back.
    GiveBack(u64),
}

/// The hits of each descriptor.
///
/// # Errors
/// The problem of the request, and its place; in the words of the reference where it has some.
pub(super) fn read(request: &RateLimitRequest) -> Result<Vec<Hits>, Status> {
    if request.domain.is_empty() {
        return Err(Status::unknown("rate limit domain must not be empty"));
    }
    let number = request.descriptors.len();
    if number == 0 {
        return Err(Status::unknown("rate limit descriptor list must not be empty"));
    }
    if number > MAX_DESCRIPTORS {
        return Err(Status::invalid_argument(format!(
            "descriptors: a request has at most {MAX_DESCRIPTORS}, not {number}"
        )));
    }
    let of = |(place, descriptor)| hits(request.hits_addend, descriptor, place);
    request.descriptors.iter().enumerate().map(of).collect()
}

fn hits(usual: u32, descriptor: &RateLimitDescriptor, place: usize) -> Result<Hits, Status> {
    let bytes: usize = entries(descriptor).map(|(key, value)| key.len() + value.len()).sum();
    if bytes > MAX_ENTRY_BYTES {
        return Err(Status::invalid_argument(format!(
            "descriptors[{place}]: its entries have at most {MAX_ENTRY_BYTES} bytes together, not \
             {bytes}"
        )));
    }
    let hits = descriptor.hits_addend.unwrap_or(u64::from(usual.max(1)));
    match hits {
        0 => Ok(Hits::Look),
        hits if hits > MAX_COST => Err(Status::invalid_argument(format!(
            "descriptors[{place}].hits_addend: at most 2^40 = {MAX_COST}, not {hits}"
        ))),
        hits if descriptor.is_negative_hits => Ok(Hits::GiveBack(hits)),
        hits => Ok(Hits::Charge(hits)),
    }
}

/// The keys and values of a descriptor.
pub(super) fn entries(
    descriptor: &RateLimitDescriptor,
) -> impl ExactSizeIterator<Item = (&str, &str)> {
    descriptor.entries.iter().map(|entry| (&*entry.key, &*entry.value))
}

/// The value of `grpc-timeout`, such as `20m` for 20 ms; `None` if it is invalid.
pub(super) fn timeout(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(number * 3_600)),
        "M" => Some(Duration::from_secs(number * 60)),
        "S" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_millis(number)),
        "u" => Some(Duration::from_micros(number)),
        "n" => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use tollgate_envoy::proto::descriptor::rate_limit_descriptor::Entry;

    use super::*;

    fn descriptor(bytes: usize) -> RateLimitDescriptor {
        let entry = Entry { key: "k".into(), value: "v".repeat(bytes - 1) };
        RateLimitDescriptor { entries: vec![entry], ..RateLimitDescriptor::default() }
    }

    fn request(descriptors: Vec<RateLimitDescriptor>, hits_addend: u32) -> RateLimitRequest {
        RateLimitRequest { domain: "rl".into(), descriptors, hits_addend }
    }

    fn refused(request: &RateLimitRequest) -> (tonic::Code, String) {
        let status = read(request).unwrap_err();
        (status.code(), status.message().to_owned())
    }

    #[test]
    fn hits_of_a_descriptor_go_before_those_of_the_request() {
        let with = |hits_addend, is_negative_hits| RateLimitDescriptor {
            hits_addend,
            is_negative_hits,
            ..descriptor(3)
        };
        let all = || vec![with(None, false), with(Some(0), false), with(Some(7), false)];
        let [charge, look, seven] = [Hits::Charge, |_| Hits::Look, Hits::Charge];
        let read_all = |hits| read(&request(all(), hits)).unwrap();
        assert_eq!(read_all(0), [charge(1), look(0), seven(7)]);
        assert_eq!(read_all(5), [charge(5), look(0), seven(7)]);
        let negative = vec![with(None, true), with(Some(0), true), with(Some(7), true)];
        let expected = [Hits::GiveBack(5), Hits::Look, Hits::GiveBack(7)];
        assert_eq!(read(&request(negative, 5)).unwrap(), expected);
    }

    #[test]
    fn what_is_out_of_bounds_is_said_with_its_place() {
        use tonic::Code;
        let nobody = RateLimitRequest { domain: String::new(), ..request(vec![], 0) };
        assert_eq!(refused(&nobody), (Code::Unknown, "rate limit domain must not be empty".into()));
        let (code, text) = refused(&request(vec![], 0));
        assert_eq!(code, Code::Unknown);
        assert_eq!(text, "rate limit descriptor list must not be empty");
        assert!(read(&request(vec![descriptor(3); 100], 0)).is_ok());
        let (code, text) = refused(&request(vec![descriptor(3); 10_000], 0));
        assert_eq!(code, Code::InvalidArgument);
        assert_eq!(text, "descriptors: a request has at most 100, not 10000");
        assert!(read(&request(vec![descriptor(65_536)], 0)).is_ok());
        let (code, text) = refused(&request(vec![descriptor(3), descriptor(65_537)], 0));
        assert_eq!(code, Code::InvalidArgument);
        assert!(text.starts_with("descriptors[1]: ") && text.ends_with("not 65537"), "{text}");
        let many = |hits| RateLimitDescriptor { hits_addend: Some(hits), ..descriptor(3) };
        assert!(read(&request(vec![many(MAX_COST)], 0)).is_ok());
        let (code, text) = refused(&request(vec![many(MAX_COST + 1)], 0));
        assert_eq!(code, Code::InvalidArgument);
        assert!(text.starts_with("descriptors[0].hits_addend: "), "{text}");
    }

    #[test]
    fn a_timeout_has_eight_digits_and_a_unit() {
        for (text, expected) in [
            ("20m", Some(Duration::from_millis(20))),
            ("1H", Some(Duration::from_secs(3_600))),
            ("2M", Some(Duration::from_secs(120))),
            ("3S", Some(Duration::from_secs(3))),
            ("17999u", Some(Duration::from_micros(17_999))),
            ("99999999n", Some(Duration::from_nanos(99_999_999))),
            ("0m", Some(Duration::ZERO)),
            ("999999999n", None),
            ("m", None),
            ("", None),
            ("1", None),
            ("-1m", None),
            ("1 m", None),
            ("1é", None),
        ] {
            assert_eq!(timeout(text), expected, "{text}");
        }
    }
}
