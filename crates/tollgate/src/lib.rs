//! Exact rate limiting in process: every strategy, several limits in one check, a memory store.
