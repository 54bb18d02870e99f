//! The counts that begin anew when policies are replaced.

use crate::model::{Entry, Policy};
use crate::policies::Policies;

impl Policies {
    /// The counts of the policies `before` that begin anew under these, for people: those of a
    /// subject whose policy is still there, and whose limits have another identity.
    pub(crate) fn restarts(&self, before: &Self) -> Vec<String> {
        let same = |old: &Policy| self.policy(self.place_of(&old.name)?);
        let pairs = before.policies().iter().filter_map(|old| Some((old, same(old)?)));
        let mut all = Vec::new();
        for (old, new) in pairs {
            for entry in &old.entries {
                let alike: Vec<&Entry> =
                    new.entries.iter().filter(|it| it.subject == entry.subject).collect();
                let goes_on = |it: &&Entry| it.limits.identity() == entry.limits.identity();
                if let Some(now) = alike.first()
                    && !alike.iter().any(goes_on)
                {
                    all.push(restart(old, entry, now));
                }
            }
        }
        all
    }
}

fn restart(policy: &Policy, old: &Entry, new: &Entry) -> String {
    let subject: Vec<String> = old.subject.iter().map(|it| format!("`{it}`")).collect();
    format!(
        "policy `{}`: the counts of {} begin anew, since `{}` counts apart from `{}`. Named limits \
         go on, and a new one has to be in a policy of its own (docs/policies.md, Counts)",
        policy.name,
        subject.join(" and "),
        new.limits,
        old.limits
    )
}

#[cfg(test)]
mod tests {
    use crate::{Format, Policies};

    fn policies(limits: &str) -> Policies {
        let text = format!(
            "version = 1\n[[policies]]\nname = \"p\"\non_failure = \"deny\"\nlimits = [{limits}]\n"
        );
        Policies::parse(&text, Format::Toml).unwrap()
    }

    #[test]
    fn another_identity_begins_anew_and_another_number_does_not() {
        let of = |limit: &str| {
            format!("{{ subject = \"user\", absent = \"deny\", limit = \"{limit}\" }}")
        };
        let money = "money: 50/month of cents";
        let cases = [
            (of("60/m via gcra"), of("90/m via gcra"), 0),
            (of("60/m via gcra"), of("60/m"), 1),
            (of("60/m via gcra"), of("60/h via gcra"), 1),
            (of("rpm: 60/m via gcra"), of("rpm: 60/h"), 0),
            (of("60/m via gcra"), of("rpm: 60/m via gcra"), 1),
            (of(&format!("60/m, {money}")), of(&format!("60/m via gcra, {money}")), 1),
            (of(&format!("r: 60/m, {money}")), of(&format!("r: 9/m via gcra, {money}")), 0),
            (of(money), of(&format!("60/m, {money}")), 1),
            (of(money), format!("{}, {}", of("60/m"), of(money)), 1),
            (of("60/m"), "{ subject = \"ip\", limit = \"60/m\" }".to_owned(), 0),
        ];
        for (before, now, restarts) in cases {
            let found = policies(&now).restarts(&policies(&before));
            assert_eq!(found.len(), restarts, "{before} -> {now}: {found:?}");
        }
        let found = policies(&of("60/m")).restarts(&policies(&of("60/m via gcra"))).remove(0);
        assert!(found.contains("policy `p`: the counts of `user` begin anew"), "{found}");
    }
}
