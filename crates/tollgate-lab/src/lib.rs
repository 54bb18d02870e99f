//! What a rate limit would do to real traffic: replay of access logs.
