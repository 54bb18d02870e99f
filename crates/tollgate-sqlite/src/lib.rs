//! The embedded durable store of Tollgate: SQLite, several processes, crash-safe.
