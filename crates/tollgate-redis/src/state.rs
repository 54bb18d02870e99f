//! The encoding of a state in its key, for everything outside Lua.

use tollgate::engine::{self, VecLog, VecStates};
use tollgate::strategy::{Entry, LuaStep};
use tollgate::{
    Anchor, BanLength, Calendar, CalendarUnit, Limit, LimitSet, Period, Place, Quota, Refill,
    Rounding, Strategy,
};

use crate::compose::{Form, has_state, in_state_order, most_of, set_tag, tag};

/// All times are below this.
pub(crate) const MAX_EXACT: u64 = 1 << 53;

const UNSOUND: &str = "it holds numbers that no count has";

const UNREADABLE: &str = "it cannot be read";

/// The totals of a log wrap around here.
const WRAP: u64 = 1 << 48;

/// Encodes a state. `None` when the set has no state beside its logs.
#[must_use]
pub fn encode(limits: &LimitSet, held: &VecStates) -> Option<Vec<u8>> {
    let mut bytes = set_tag(limits).into_bytes();
    for rows in [false, true] {
        for (declared, limit) in in_state_order(limits) {
            let words = limits.places()[declared].words();
            let is_row = matches!(Form::from_limit(limit), Form::Row(_));
            if is_row == rows {
                for (i, word) in held.words[words].iter().enumerate() {
                    let width = if i == 0 { 7 } else { 6 };
                    bytes.extend_from_slice(&word.to_be_bytes()[8 - width..]);
                }
            }
        }
    }
    has_state(limits).then_some(bytes)
}

/// The first element of a log's list, and its entries.
#[must_use]
pub fn log_entries(limit: &Limit, log: &VecLog) -> Vec<Vec<u8>> {
    use tollgate::strategy::Log as _;
    let mut head = tag([limit]).into_bytes();
    head.extend_from_slice(&(log.base() % WRAP).to_be_bytes()[2..]);
    let mut rows = vec![head];
    for i in 0..log.len() {
        let Entry { at_us, total } = log.entry(i);
        let mut row = at_us.to_be_bytes()[1..].to_vec();
        row.extend_from_slice(&(total % WRAP).to_be_bytes()[2..]);
        rows.push(row);
    }
    rows
}

/// A limit as a state describes it: the letters of its strategy and its step, the number of its
/// integers, and its numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
struct TaggedLimit {
    strategy: Strategy,
    step: &'static LuaStep,
    count: usize,
    numbers: Vec<u64>,
    /// The most units that can be used of a window or a log, where the state says it.
    most: Option<u64>,
}

/// Decodes a state, and the lists of its logs by their positions (empty where there is none).
/// Returns the limits under which the state was written, with the identities of `limits`, and the
/// counts.
///
/// # Errors
/// The state is invalid; the text says why.
pub fn decode(
    limits: &LimitSet,
    state: Option<&[u8]>,
    logs: &[Vec<Vec<u8>>],
) -> Result<(LimitSet, VecStates), &'static str> {
    const LENGTH: &str = "it does not have the length that it says";
    let places = in_state_order(limits);
    let mut named: Vec<Option<TaggedLimit>> = vec![None; places.len()];
    let mut rest: &[u8] = &[];
    if let Some(state) = state {
        let (list, after) = read_tag(state)?;
        if list.len() != places.len() {
            return Err("it is of another number of limits");
        }
        named = list.into_iter().map(Some).collect();
        rest = after;
    }
    let mut words: Vec<Vec<u64>> = vec![Vec::new(); places.len()];
    for rows in [false, true] {
        for (named, words) in named.iter().zip(&mut words) {
            let Some(TaggedLimit { count, .. }) = named else { continue };
            if *count == 0 || (*count != 2) != rows {
                continue;
            }
            for i in 0..*count {
                let width = if i == 0 { 7 } else { 6 };
                let (word, after) = rest.split_at_checked(width).ok_or(LENGTH)?;
                rest = after;
                words.push(word.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)));
            }
        }
    }
    if !rest.is_empty() {
        return Err(LENGTH);
    }
    let mut events: Vec<Option<VecLog>> = vec![None; places.len()];
    for (i, rows) in logs.iter().enumerate().take(places.len()) {
        let Some((head, rows)) = rows.split_first() else { continue };
        let (list, base) = read_tag(head)?;
        named[i] = list.into_iter().next();
        let number = |bytes: &[u8]| bytes.iter().fold(0, |n, byte| n << 8 | u64::from(*byte));
        // Totals wrap around; the costs between them are far smaller.
        let (mut before, mut total) = (number(base), 0);
        let mut entries = Vec::with_capacity(rows.len());
        for row in rows {
            let (at, sum) = row.split_at_checked(7).ok_or(LENGTH)?;
            let (at_us, sum) = (number(at), number(sum));
            total += sum.wrapping_sub(before) % WRAP;
            before = sum;
            let earlier = entries.last().map_or(0, |entry: &Entry| entry.at_us);
            if at_us < earlier || at_us >= MAX_EXACT {
                return Err(UNSOUND);
            }
            entries.push(Entry { at_us, total });
        }
        events[i] = Some(VecLog::new(0, entries));
    }
    let mut written = Vec::new();
    for ((_, limit), named) in places.iter().zip(&named) {
        written.push(match named {
            Some(named) if is_of(limit, named) => (*limit).clone(),
            Some(named) => rebuild(limit, named).ok_or("its numbers are out of range")?,
            None => (*limit).clone(),
        });
    }
    let set = LimitSet::new(written).map_err(|_| "its limits do not fit together")?;
    let mut held = VecStates::fresh(&set);
    for (i, place) in set.places().iter().enumerate() {
        match place {
            Place::Log(index) => held.logs[*index] = events[i].take().unwrap_or_default(),
            place if words[i].is_empty() => held.words[place.words()].fill(0),
            place => {
                let into = &mut held.words[place.words()];
                if into.len() != words[i].len() {
                    return Err(LENGTH);
                }
                into.copy_from_slice(&words[i]);
            }
        }
    }
    if !engine::is_sound(&set, &held.words) {
        return Err(UNSOUND);
    }
    Ok((set, held))
}

fn is_of(limit: &Limit, named: &TaggedLimit) -> bool {
    let spec = limit.lua_spec();
    limit.strategy() == named.strategy
        && spec.step.is_some_and(|step| step.code == named.step.code)
        && own_numbers(named.step, &spec.numbers) == own_numbers(named.step, &named.numbers)
        && named.most.is_none_or(|most| most == most_of(limit))
}

/// The numbers of a limit. The edges of a calendar, which come last, are those around the time of
/// whoever wrote it.
fn own_numbers<'n>(step: &LuaStep, numbers: &'n [u64]) -> &'n [u64] {
    let own = step.edges.map_or(numbers.len(), |first| first - 1);
    numbers.get(..own).unwrap_or(numbers)
}

/// A limit with the state's numbers, under the identity of `limit`.
fn rebuild(limit: &Limit, named: &TaggedLimit) -> Option<Limit> {
    let TaggedLimit { strategy, step, numbers, most, .. } = named;
    let number = |i: usize| numbers.get(i).copied();
    let period = |us: u64| Period::from_micros(us);
    let mut quota;
    match step.code {
        'g' => {
            // The time of one unit, n/d, can be written as any N/D with the same quotient. The
            // identity of a limit without a name contains its D.
            let (n, d) = (number(0)?, number(1)?);
            quota = Quota::new(d, period(n)?);
            if limit.name().is_none() {
                let whole = limit.quota().period;
                let units = u128::from(whole.as_micros()) * u128::from(d) / u128::from(n.max(1));
                quota = Quota::new(u64::try_from(units).ok()?, whole);
            }
            if strategy.options().contains(&"burst") {
                quota.burst = Some(number(2)?);
            }
            quota.debt = Some(number(3)?.checked_sub(number(2)?)?);
        }
        'i' => {
            quota = Quota::new(number(0)?, period(number(1)?)?);
            quota.burst = Some(number(2)?);
            quota.debt = Some(number(3)?.checked_sub(number(2)?)?);
            quota.refill = Some(Refill::Interval);
        }
        'f' => {
            quota = Quota::new(number(0)?, period(number(1)?)?);
            quota.anchor = Some(if number(2)? == 1 { Anchor::FirstHit } else { Anchor::Epoch });
        }
        'k' => {
            // A state does not name its zone. Its window counts until its own end in any.
            let unit = CalendarUnit::of_least(period(number(1)?)?)?;
            let own = limit.quota().calendar.clone().filter(|own| own.unit() == unit);
            quota = Quota::in_calendar(number(0)?, own.unwrap_or_else(|| Calendar::new(unit)));
        }
        's' => {
            let precision = number(1)?;
            quota = Quota::new(number(0)?, period(precision.checked_mul(number(2)?)?)?);
            quota.precision = Some(period(precision)?);
            quota.rounding = Some(match number(3)? {
                0 => Rounding::Conservative,
                1 => Rounding::Interpolate,
                _ => Rounding::Truncate,
            });
        }
        'l' | 'c' => quota = Quota::new(number(0)?, period(number(1)?)?),
        'b' => {
            quota = Quota::new(number(0)?, period(number(1)?)?);
            quota.ban =
                Some(BanLength { first: period(number(2)?)?, longest: period(number(3)?)? });
        }
        _ => return None,
    }
    if let Some(most) = most {
        quota.debt = Some(most.checked_sub(number(0)?)?);
    }
    quota.unit = limit.quota().unit;
    let was = Limit::new(quota, *strategy).ok()?;
    Some(match limit.name() {
        Some(name) => was.named(name).ok()?,
        None => was,
    })
}

/// Parses the tag of a state; also returns the bytes after it.
fn read_tag(state: &[u8]) -> Result<(Vec<TaggedLimit>, &[u8]), &'static str> {
    const FOREIGN: &str = "the key holds something that is not a state of Tollgate";
    const NEWER: &str = "the state was written by a newer version";
    let end = state.iter().position(|byte| *byte == b'|').ok_or(FOREIGN)?;
    let text = std::str::from_utf8(&state[..end]).map_err(|_| FOREIGN)?;
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    match &text[..digits] {
        "" => return Err(FOREIGN),
        "1" | "2" | "3" => {}
        _ => return Err(NEWER),
    }
    // Version 3 records the debt of windows and logs while holds are open.
    let (parts, mosts) = match text[digits..].rsplit_once(";h") {
        Some((parts, mosts)) => (parts, mosts),
        None => (text[digits..].strip_suffix(';').unwrap_or(&text[digits..]), ""),
    };
    if text.starts_with('3') == mosts.is_empty() {
        return Err(if mosts.is_empty() { NEWER } else { UNREADABLE });
    }
    let mut named: Vec<TaggedLimit> =
        parts.split(';').map(read_part).collect::<Option<_>>().ok_or(UNREADABLE)?;
    if !named.iter().all(|part| part.step.is_sound(part.count, &part.numbers)) {
        return Err(UNSOUND);
    }
    read_mosts(&mut named, mosts)?;
    // Version 2 says that holds of the count are open, with an `h`, or that more is used than a
    // burst. Those that know no holds or no debts refuse it.
    let may_owe = named.iter().any(|part| matches!(part.step.code, 'g' | 'i'));
    if text.starts_with('2') && !text.ends_with(";h") && !may_owe {
        return Err(NEWER);
    }
    Ok((named, &state[end + 1..]))
}

fn read_part(part: &str) -> Option<TaggedLimit> {
    let (head, list) = part.split_once(':')?;
    let mut letters = head.chars();
    let (strategy, step) = (letters.next()?, letters.next()?);
    let strategy = Strategy::ALL.iter().find(|known| known.code() == strategy)?;
    let step = *strategy.lua_steps().iter().find(|known| known.code == step)?;
    let mut numbers: Vec<u64> = list.split(',').map(str::parse).collect::<Result<_, _>>().ok()?;
    // Before debts, no more than the burst could be used.
    if let ('g' | 'i', &[_, _, burst]) = (step.code, &numbers[..]) {
        numbers.push(burst);
    }
    let count = letters.as_str().parse().ok()?;
    Some(TaggedLimit { strategy: *strategy, step, count, numbers, most: None })
}

/// Reads the most units that can be used of each window and log, where a state says it.
fn read_mosts(named: &mut [TaggedLimit], mosts: &str) -> Result<(), &'static str> {
    if mosts.is_empty() {
        return Ok(());
    }
    let mut each = mosts.split(',').map(|most| most.parse::<u64>().ok());
    for part in named.iter_mut().filter(|part| matches!(part.step.code, 'f' | 'k' | 's' | 'l')) {
        let most = each.next().flatten().ok_or(UNREADABLE)?;
        let units = part.numbers.first().copied().unwrap_or_default();
        if !(units..=tollgate::MAX_UNITS).contains(&most) {
            return Err(UNSOUND);
        }
        part.most = Some(most);
    }
    if each.next().is_some() { Err(UNREADABLE) } else { Ok(()) }
}
