//! The store conformance kit: the promises of every store, as cases that any author of one can run.
//!
//! A case gets a function that makes a fresh, empty store whose time comes from a [`ManualClock`],
//! and panics when a promise is broken. In a test file of a store:
//!
//! ```
//! use tollgate::{ManualClock, MemoryStore};
//!
//! fn make(clock: ManualClock) -> MemoryStore {
//!     MemoryStore::builder().clock(clock).build()
//! }
//!
//! tollgate_proof::conformance_tests!(make);
//! # fn main() {}
//! ```
//!
//! Every case then shows as a separate test. [`run`] runs them all in a row instead. No async
//! runtime is needed: the kit waits for a store's futures by parking its thread. A store whose
//! futures need a runtime enters it in the function that makes the store, or blocks inside.
//!
//! A store says by its type what it keeps besides counts ([`Store::KEEPS`]). The cases of the rest
//! print that it does not keep it, and try only that it is refused.
//!
//! A case may rely on two things: two stores of one `make` do not share counts, and a store reads
//! no clock but the one it was given.

mod bans;
mod calendars;
mod changes;
mod credits;
mod held_units;
mod histories;
mod hold_histories;
mod hold_lines;
mod holds;
mod migration;
mod mixed;
mod named_holds;
mod notices;
mod promises;
mod receipts;
mod refusals;
mod requests;
mod shown_holds;
mod threads;
mod uncounted;
mod unit_lines;
mod unit_parts;
mod units;
mod world;

use tollgate::{Keeps, ManualClock, Store};

pub use hold_histories::hold_history;
pub(crate) use hold_histories::kind_of;
pub use mixed::{Difference, FAMILIES, every_history, least_difference, mixed_history};
pub use world::{SMALL, block_on, rule_of};

/// Makes empty stores on a clock of the kit. Any `Fn(ManualClock) -> impl Store` is one.
pub trait StoreMaker {
    /// The store that it makes.
    type Store: Store;
    /// A store that holds nothing yet, and whose time is `clock`'s.
    fn make(&self, clock: ManualClock) -> Self::Store;

    /// Lets a store drop all that it may forget by its own time (definitions, sections 3 and 4).
    /// Histories call it now and then; without it they see what a store drops by itself.
    fn forget(&self, _store: &Self::Store) {}

    /// Of this many random histories of a case one is run: 1 for all of them.
    fn one_of(&self) -> u64 {
        1
    }
}

/// The numbers of the histories that a maker runs of this many.
fn some<M: StoreMaker>(maker: &M, histories: u64) -> impl Iterator<Item = u64> {
    let one_of = maker.one_of().max(1);
    (0..histories).filter(move |number| number % one_of == 0)
}

impl<S: Store, F: Fn(ManualClock) -> S> StoreMaker for F {
    type Store = S;

    fn make(&self, clock: ManualClock) -> S {
        self(clock)
    }
}

/// Makes stores by one function, and has them forget by another.
#[derive(Clone, Copy, Debug)]
pub struct Sweeping<Make, Forget> {
    make: Make,
    forget: Forget,
}

/// Stores that `make` makes and `forget` sweeps, as in
/// `sweeping(make, |store: &MemoryStore| drop(store.sweep()))`.
pub fn sweeping<S, Make, Forget>(make: Make, forget: Forget) -> Sweeping<Make, Forget>
where
    S: Store,
    Make: Fn(ManualClock) -> S,
    Forget: Fn(&S),
{
    Sweeping { make, forget }
}

impl<S: Store, Make: Fn(ManualClock) -> S, Forget: Fn(&S)> StoreMaker for Sweeping<Make, Forget> {
    type Store = S;

    fn make(&self, clock: ManualClock) -> S {
        (self.make)(clock)
    }

    fn forget(&self, store: &S) {
        (self.forget)(store);
    }
}

/// Makes the stores of another maker, and runs few random histories with them.
#[derive(Clone, Copy, Debug)]
pub struct Fewer<M> {
    maker: M,
    one_of: u64,
}

/// A maker that runs one of this many random histories of a case, and each other case as it is. For
/// a store over a network that differs from another, which runs them all, in how it is reached.
pub const fn fewer<M: StoreMaker>(maker: M, one_of: u64) -> Fewer<M> {
    Fewer { maker, one_of }
}

impl<M: StoreMaker> StoreMaker for Fewer<M> {
    type Store = M::Store;

    fn make(&self, clock: ManualClock) -> M::Store {
        self.maker.make(clock)
    }

    fn forget(&self, store: &M::Store) {
        self.maker.forget(store);
    }

    fn one_of(&self) -> u64 {
        self.one_of
    }
}

/// One promise: its name, and the function that panics when it is broken.
#[derive(Debug)]
#[allow(clippy::exhaustive_structs, reason = "plain data")]
pub struct Case<M> {
    /// The promise in a few words.
    pub name: &'static str,
    /// Tries it on stores of a maker.
    pub run: fn(&M),
}

/// Writes the cases once: as a list, and each as a function that the macro makes a test of.
macro_rules! cases {
    ($($needs:expr => { $($module:ident::$name:ident,)+ })+) => {
        /// Every case, in order.
        #[must_use]
        pub fn cases<M: StoreMaker>() -> Vec<Case<M>> {
            vec![$($(Case { name: stringify!($name), run: $name::<M> }),+),+]
        }

        $(cases! { @each $needs; $($module::$name,)+ })+
    };
    (@each $needs:expr; $($module:ident::$name:ident,)+) => {$(
        #[doc = concat!("The case `", stringify!($name), "`.")]
        ///
        /// # Panics
        /// When the store breaks it, or does not keep what it is about and does not refuse that.
        pub fn $name<M: StoreMaker>(maker: &M) {
            match M::Store::KEEPS.covers($needs) {
                true => $module::$name(maker),
                false => refusals::are_given(maker, stringify!($name), $needs),
            }
        }
    )+};
}

cases! {
    Keeps::COUNTS => {
        histories::time_lines_are_answered_as_written,
        histories::one_limit_equals_the_oracle_in_every_field,
        histories::a_clock_that_steps_back_equals_the_oracle_in_every_field,
        histories::several_limits_and_subjects_equal_the_oracle_in_every_field,
        promises::a_check_is_all_or_nothing,
        promises::denials_and_peeks_change_nothing,
        promises::retry_after_is_exact_both_ways,
        promises::remaining_is_exact,
        promises::a_refund_happens_once,
        promises::a_refund_gives_only_what_still_counts,
        promises::a_refund_in_parts_never_gives_more_than_the_charge,
        promises::what_is_free_by_itself_is_not_forgotten_sooner,
        promises::receipts_of_another_store_are_refused,
        promises::a_reset_forgets_one_count_and_no_other,
        promises::an_adjustment_stays_within_the_limit,
        promises::subjects_are_told_apart_byte_by_byte,
        promises::impossible_costs_are_never_and_change_nothing,
        migration::numbers_may_go_up_and_down_while_they_count,
        migration::another_strategy_starts_fresh_and_says_so,
        migration::a_set_written_in_another_order_shares_its_count,
        migration::a_set_of_other_identities_is_another_count,
        migration::a_denial_after_a_change_keeps_what_was_carried,
        migration::a_refund_after_a_change_forgets_nothing_else,
        migration::revisions_in_turns_admit_no_more_than_is_said,
        changes::changes_and_steps_back_equal_the_oracle_in_every_field,
        receipts::a_receipt_counts_once_after_its_limit_was_slowed,
        receipts::no_receipt_outlives_a_reset,
        receipts::a_spent_receipt_is_forgotten_only_by_a_step_back_beyond_it,
        receipts::given_is_by_how_much_remaining_rose,
        receipts::a_receipt_counts_once_in_any_history_of_changes,
        promises::a_shared_subject_keeps_its_count_while_others_come_in,
        bans::bans_equal_the_oracle_in_every_field,
        bans::bans_under_a_clock_that_steps_back_equal_the_oracle,
        bans::a_ban_counts_the_denials_of_its_own_set,
        threads::a_hundred_threads_share_five_units,
        threads::checks_in_opposite_orders_never_wait_for_each_other,
        unit_lines::time_lines_of_units_are_answered_as_written,
        units::units_equal_the_oracle_in_every_field,
        units::a_charge_of_several_units_is_refunded_whole,
        unit_parts::parts_by_unit_equal_the_oracle_of_each_limit,
        calendars::a_day_and_a_month_are_one_check,
        calendars::a_duration_and_a_calendar_of_one_name_share_a_count,
        calendars::two_versions_of_a_zone_admit_one_budget_more_an_edge,
    }
    Keeps::COUNTS.with_requests() => {
        requests::a_repeated_request_is_charged_once,
        requests::a_denial_is_not_remembered,
        requests::a_request_id_is_of_one_question,
        requests::a_charge_under_an_id_has_a_different_receipt,
        requests::an_id_for_all_requests_is_charged,
        requests::requests_equal_a_map_of_answers,
        requests::a_count_remembers_its_last_requests,
        units::a_request_id_is_of_one_cost,
    }
    Keeps::COUNTS.with_notices() => {
        notices::notices_are_kept_until_their_end,
    }
    Keeps::COUNTS.with_charges() => {
        bans::a_ban_is_forgiven_by_a_reset_and_by_nothing_else,
        calendars::calendars_equal_the_oracle_in_every_field,
    }
    Keeps::COUNTS.with_holds() => {
        calendars::a_hold_that_ends_windows_later_counts_there,
        receipts::a_reset_is_remembered_where_the_count_went_before_it,
        bans::a_hold_is_denied_by_a_ban_and_its_denial_counts,
        bans::a_check_that_waits_counts_for_no_ban,
        hold_lines::time_lines_with_holds_are_answered_as_written,
        hold_histories::open_holds_equal_the_oracle_in_every_field,
        hold_histories::open_holds_under_a_clock_that_steps_back_equal_the_oracle,
        holds::a_hold_is_settled_once,
        holds::a_count_has_at_most_so_many_holds_that_charge_at_their_end,
        holds::a_hold_that_is_not_open_is_an_error_that_changes_nothing,
        holds::holds_over_several_counts_are_all_or_nothing,
        holds::holds_outlive_a_change_of_numbers_and_end_with_a_reset,
        holds::fencing_numbers_rise,
        holds::what_an_acquire_charges_is_refunded_once,
        holds::a_check_takes_no_slot,
        holds::a_wait_is_marked_where_settling_holds_would_shorten_it,
        holds::nothing_but_another_strategy_starts_fresh,
        holds::a_place_in_line_is_kept_on_every_count,
        holds::a_peek_of_a_hold_foretells_it,
        held_units::an_amount_of_0_waits_until_nothing_is_owed,
        held_units::a_named_hold_is_of_all_its_amounts,
        shown_holds::an_inspection_shows_open_holds,
        shown_holds::an_inspection_shows_how_old_holds_are,
        named_holds::a_named_hold_asked_for_again_is_one_hold,
        named_holds::a_named_hold_asked_for_otherwise_is_refused,
        named_holds::a_named_hold_is_settled_by_its_name,
        named_holds::a_release_before_its_acquire_refuses_that,
        named_holds::an_answer_that_reached_nobody_is_given_back_unless_it_came_again,
        named_holds::a_named_hold_over_several_counts_is_one,
        named_holds::what_a_name_refuses_leaves_a_count_under_its_numbers,
        named_holds::a_mark_lasts_as_long_as_the_limits_of_its_question_say,
    }
    Keeps::COUNTS.with_holds().with_charges() => {
        held_units::holds_of_several_units_equal_those_of_each,
        uncounted::an_uncounted_limit_keeps_its_count,
        credits::credits_equal_a_model,
        credits::a_named_credit_is_given_once,
        credits::a_credit_that_cannot_be_is_refused,
        credits::a_refund_goes_to_who_paid,
        credits::used_up_credits_make_room,
    }
}

/// Runs every case in a row.
///
/// # Panics
/// At the first promise that is broken; the name of the case is printed before.
pub fn run<M: StoreMaker>(maker: M) {
    for case in cases::<M>() {
        println!("case {}", case.name);
        (case.run)(&maker);
    }
}

/// Makes one `#[test]` of each case of the kit, for the stores of a function.
///
/// Its argument is anything that may be called with a [`ManualClock`] and answers a store.
#[macro_export]
macro_rules! conformance_tests {
    ($make:expr) => {
        $crate::conformance_tests!(@each $make;
            time_lines_are_answered_as_written,
            one_limit_equals_the_oracle_in_every_field,
            a_clock_that_steps_back_equals_the_oracle_in_every_field,
            several_limits_and_subjects_equal_the_oracle_in_every_field,
            a_check_is_all_or_nothing,
            denials_and_peeks_change_nothing,
            retry_after_is_exact_both_ways,
            remaining_is_exact,
            a_refund_happens_once,
            a_refund_gives_only_what_still_counts,
            a_refund_in_parts_never_gives_more_than_the_charge,
            what_is_free_by_itself_is_not_forgotten_sooner,
            receipts_of_another_store_are_refused,
            a_reset_forgets_one_count_and_no_other,
            an_adjustment_stays_within_the_limit,
            subjects_are_told_apart_byte_by_byte,
            impossible_costs_are_never_and_change_nothing,
            numbers_may_go_up_and_down_while_they_count,
            another_strategy_starts_fresh_and_says_so,
            a_set_written_in_another_order_shares_its_count,
            a_set_of_other_identities_is_another_count,
            a_denial_after_a_change_keeps_what_was_carried,
            a_refund_after_a_change_forgets_nothing_else,
            revisions_in_turns_admit_no_more_than_is_said,
            changes_and_steps_back_equal_the_oracle_in_every_field,
            a_receipt_counts_once_after_its_limit_was_slowed,
            no_receipt_outlives_a_reset,
            a_spent_receipt_is_forgotten_only_by_a_step_back_beyond_it,
            given_is_by_how_much_remaining_rose,
            a_receipt_counts_once_in_any_history_of_changes,
            a_shared_subject_keeps_its_count_while_others_come_in,
            bans_equal_the_oracle_in_every_field,
            bans_under_a_clock_that_steps_back_equal_the_oracle,
            a_ban_counts_the_denials_of_its_own_set,
            a_hundred_threads_share_five_units,
            checks_in_opposite_orders_never_wait_for_each_other,
            time_lines_of_units_are_answered_as_written,
            units_equal_the_oracle_in_every_field,
            a_charge_of_several_units_is_refunded_whole,
            parts_by_unit_equal_the_oracle_of_each_limit,
            a_day_and_a_month_are_one_check,
            a_duration_and_a_calendar_of_one_name_share_a_count,
            two_versions_of_a_zone_admit_one_budget_more_an_edge,
            a_repeated_request_is_charged_once,
            a_denial_is_not_remembered,
            a_request_id_is_of_one_question,
            a_charge_under_an_id_has_a_different_receipt,
            an_id_for_all_requests_is_charged,
            requests_equal_a_map_of_answers,
            a_count_remembers_its_last_requests,
            a_request_id_is_of_one_cost,
            notices_are_kept_until_their_end,
            a_ban_is_forgiven_by_a_reset_and_by_nothing_else,
            calendars_equal_the_oracle_in_every_field,
            a_hold_that_ends_windows_later_counts_there,
            a_reset_is_remembered_where_the_count_went_before_it,
            a_hold_is_denied_by_a_ban_and_its_denial_counts,
            a_check_that_waits_counts_for_no_ban,
            time_lines_with_holds_are_answered_as_written,
            open_holds_equal_the_oracle_in_every_field,
            open_holds_under_a_clock_that_steps_back_equal_the_oracle,
            a_hold_is_settled_once,
            a_count_has_at_most_so_many_holds_that_charge_at_their_end,
            a_hold_that_is_not_open_is_an_error_that_changes_nothing,
            holds_over_several_counts_are_all_or_nothing,
            holds_outlive_a_change_of_numbers_and_end_with_a_reset,
            fencing_numbers_rise,
            what_an_acquire_charges_is_refunded_once,
            a_check_takes_no_slot,
            a_wait_is_marked_where_settling_holds_would_shorten_it,
            nothing_but_another_strategy_starts_fresh,
            a_place_in_line_is_kept_on_every_count,
            a_peek_of_a_hold_foretells_it,
            an_amount_of_0_waits_until_nothing_is_owed,
            a_named_hold_is_of_all_its_amounts,
            an_inspection_shows_open_holds,
            an_inspection_shows_how_old_holds_are,
            a_named_hold_asked_for_again_is_one_hold,
            a_named_hold_asked_for_otherwise_is_refused,
            a_named_hold_is_settled_by_its_name,
            a_release_before_its_acquire_refuses_that,
            an_answer_that_reached_nobody_is_given_back_unless_it_came_again,
            a_named_hold_over_several_counts_is_one,
            what_a_name_refuses_leaves_a_count_under_its_numbers,
            a_mark_lasts_as_long_as_the_limits_of_its_question_say,
            holds_of_several_units_equal_those_of_each,
            an_uncounted_limit_keeps_its_count,
            credits_equal_a_model,
            a_named_credit_is_given_once,
            a_credit_that_cannot_be_is_refused,
            a_refund_goes_to_who_paid,
            used_up_credits_make_room,
        );
        /// Every case of the kit has a test here.
        #[test]
        fn no_case_is_left_out() {
            fn names<M: $crate::conformance::StoreMaker>(_: &M) -> Vec<&'static str> {
                $crate::conformance::cases::<M>().iter().map(|case| case.name).collect()
            }
            assert_eq!(names(&$make), CONFORMANCE_CASES);
        }
    };
    (@each $make:expr; $($name:ident,)+) => {
        const CONFORMANCE_CASES: &[&str] = &[$(stringify!($name)),+];
        $(
            #[test]
            fn $name() {
                $crate::conformance::$name(&$make);
            }
        )+
    };
}
