//! Ids grow, and jobs are as large as they may be.

use super::*;
use crate::body::{MAX_FIELDS, MAX_JOB_BYTES};

#[test]
fn ids_grow_also_when_the_clock_goes_back() {
    let id = JobId::default().next(5);
    assert_eq!(id.to_string(), "5-0");
    assert_eq!(id.next(5), JobId::new(5, 1));
    assert_eq!(id.next(4).next(6), JobId::new(6, 0));
    assert_eq!("17-3".parse::<JobId>().unwrap(), JobId::new(17, 3));
    for wrong in ["", "1", "-1-2", "1-", "1-x", "+1-2", "99999999999999999999-0"] {
        assert!(wrong.parse::<JobId>().is_err(), "{wrong}");
    }
}

#[test]
fn jobs_are_as_large_as_they_may_be_and_no_larger() {
    let wrong = |job: Job| job.check().unwrap_err().to_string();
    Job::from_bytes(&[0; MAX_JOB_BYTES]).check().unwrap();
    assert!(wrong(Job::from_bytes(&[0; MAX_JOB_BYTES + 1])).contains("at most 65536"));
    let fields = |n: usize| Job::from_fields((0..n).map(|n| (format!("f{n}"), "v")));
    fields(MAX_FIELDS).check().unwrap();
    assert!(wrong(fields(MAX_FIELDS + 1)).contains("at most 64"));
    assert!(wrong(Job::new().field("", "x")).contains("1 to 256"));
    assert!(wrong(Job::new().field("a", "x").field("a", "y")).contains("two fields `a`"));
    assert!(wrong(Job::new().field("@at", "x")).contains("is reserved"));
    assert!(wrong(Job::new().dedup_id("x".repeat(257))).contains("the id of a job of 257 bytes"));
    Job::new().client("x".repeat(256)).check().unwrap();
    for (client, says) in
        [("", "of 0 bytes"), (&*"x".repeat(257), "of 257 bytes"), ("@a", "is reserved")]
    {
        let said = wrong(Job::new().client(client));
        assert!(said.contains("the name of a client") && said.contains(says), "{said}");
    }
}
