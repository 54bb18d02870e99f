BEGIN TRANSACTION;
CREATE TABLE entries (
        log INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        at_us INTEGER NOT NULL,
        total INTEGER NOT NULL,
        PRIMARY KEY (log, seq)
    ) WITHOUT ROWID;
CREATE TABLE guests (name TEXT PRIMARY KEY, format INTEGER NOT NULL);
INSERT INTO "guests" VALUES('queue',4);
CREATE TABLE held (
        subject TEXT NOT NULL,
        counted INTEGER NOT NULL,
        open INTEGER NOT NULL,
        units INTEGER NOT NULL,
        charging INTEGER NOT NULL,
        slots INTEGER NOT NULL,
        fence INTEGER NOT NULL,
        seen_us INTEGER NOT NULL,
        PRIMARY KEY (subject, counted)
    ) WITHOUT ROWID;
CREATE TABLE holds (
        subject TEXT NOT NULL,
        counted INTEGER NOT NULL,
        end_us INTEGER NOT NULL,
        id BLOB NOT NULL,
        cost INTEGER NOT NULL,
        PRIMARY KEY (subject, counted, end_us, id)
    ) WITHOUT ROWID;
CREATE TABLE queue_clients (
        queue INTEGER NOT NULL,
        client TEXT NOT NULL,
        waiting INTEGER NOT NULL,
        out INTEGER NOT NULL,
        PRIMARY KEY (queue, client)
    ) WITHOUT ROWID;
CREATE TABLE queue_dead (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        queue INTEGER NOT NULL,
        ms INTEGER NOT NULL,
        number INTEGER NOT NULL,
        deliveries INTEGER NOT NULL,
        why TEXT,
        body NOT NULL
    , client TEXT, once TEXT);
CREATE TABLE queue_done (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        queue INTEGER NOT NULL,
        ms INTEGER NOT NULL,
        number INTEGER NOT NULL,
        deliveries INTEGER NOT NULL,
        body NOT NULL
    );
INSERT INTO "queue_done" VALUES(1,1,1795868961238,0,1,'{"n":"1","to":"ann"}');
CREATE TABLE queue_jobs (
        id INTEGER PRIMARY KEY,
        queue INTEGER NOT NULL,
        ms INTEGER NOT NULL,
        number INTEGER NOT NULL,
        due_us INTEGER,
        until_us INTEGER,
        deliveries INTEGER NOT NULL DEFAULT 0,
        held INTEGER NOT NULL DEFAULT 0,
        worker TEXT,
        why TEXT,
        body NOT NULL
    , client TEXT, once TEXT);
INSERT INTO "queue_jobs" VALUES(2,1,1795868961270,0,1795868962253962,NULL,1,0,'w','exited with 1','{"n":"2","to":"ann"}',NULL,NULL);
INSERT INTO "queue_jobs" VALUES(3,1,1795868961294,0,1795868991490688,NULL,1,1,'w',NULL,'{"n":"3","to":"ann"}',NULL,'1795868961294-0 the third');
INSERT INTO "queue_jobs" VALUES(4,1,1795868961314,0,NULL,NULL,0,0,NULL,NULL,'{"n":"4","to":"ann"}',NULL,NULL);
INSERT INTO "queue_jobs" VALUES(5,1,1795868961346,0,NULL,NULL,0,0,NULL,NULL,'{"n":"5","to":"ann"}',NULL,NULL);
INSERT INTO "queue_jobs" VALUES(6,1,1795868961398,0,NULL,NULL,0,0,NULL,NULL,'{"n":"6","to":"ann"}',NULL,NULL);
CREATE TABLE queue_once (
        queue INTEGER NOT NULL,
        once TEXT NOT NULL,
        ms INTEGER NOT NULL,
        number INTEGER NOT NULL,
        until_us INTEGER NOT NULL,
        PRIMARY KEY (queue, once)
    ) WITHOUT ROWID;
INSERT INTO "queue_once" VALUES(1,'the third',1795868961294,0,1795869561294438);
CREATE TABLE queues (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        offering TEXT,
        working TEXT,
        counts_all INTEGER NOT NULL,
        keep_done INTEGER NOT NULL,
        last_ms INTEGER NOT NULL,
        last_number INTEGER NOT NULL,
        drain_window INTEGER NOT NULL,
        drain_now INTEGER NOT NULL,
        drain_before INTEGER NOT NULL,
        waiting INTEGER NOT NULL,
        out INTEGER NOT NULL,
        dead INTEGER NOT NULL,
        accepted INTEGER NOT NULL,
        refused INTEGER NOT NULL,
        known INTEGER NOT NULL,
        delivered INTEGER NOT NULL,
        redelivered INTEGER NOT NULL,
        done INTEGER NOT NULL,
        too_old INTEGER NOT NULL,
        died INTEGER NOT NULL
    , paused INTEGER NOT NULL DEFAULT 0);
INSERT INTO "queues" VALUES(1,'mail','{"bound":10,"all":false,"remember_us":600000000}','{"visibility_us":30000000,"deliveries":3,"keep_dead":1000,"keep_done":5}',0,5,1795868961398,0,179586896,3,0,3,2,0,6,0,0,3,0,1,0,0,0);
CREATE TABLE resets (
        subject TEXT NOT NULL,
        counted INTEGER NOT NULL,
        number INTEGER NOT NULL,
        until_us INTEGER NOT NULL,
        PRIMARY KEY (subject, counted)
    ) WITHOUT ROWID;
CREATE TABLE settled (
        subject TEXT NOT NULL,
        counted INTEGER NOT NULL,
        id BLOB NOT NULL,
        actual INTEGER NOT NULL,
        until_us INTEGER NOT NULL,
        PRIMARY KEY (subject, counted, id)
    ) WITHOUT ROWID;
CREATE TABLE spent (number INTEGER PRIMARY KEY, until_us INTEGER NOT NULL, units INTEGER NOT NULL DEFAULT 1099511627776);
CREATE TABLE states (
        subject TEXT NOT NULL,
        counted INTEGER NOT NULL,
        written INTEGER NOT NULL,
        expires_us INTEGER NOT NULL,
        state BLOB NOT NULL,
        PRIMARY KEY (subject, counted)
    ) WITHOUT ROWID;
CREATE TABLE store (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        identity INTEGER NOT NULL,
        next_number INTEGER NOT NULL,
        hand_subject TEXT NOT NULL,
        hand_counted INTEGER NOT NULL,
        hand_spent INTEGER NOT NULL,
        hand_reset_subject TEXT NOT NULL,
        hand_reset_counted INTEGER NOT NULL
    );
INSERT INTO "store" VALUES(1,-7466256390750163096,1,'',0,0,'',0);
CREATE TABLE texts (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);
CREATE INDEX holds_by_id ON holds (id, subject, counted);
CREATE UNIQUE INDEX queue_jobs_ids ON queue_jobs (queue, ms, number);
CREATE INDEX queue_jobs_due ON queue_jobs (queue, due_us, ms, number);
CREATE INDEX queue_dead_oldest ON queue_dead (queue, id);
CREATE INDEX queue_done_oldest ON queue_done (queue, id);
CREATE INDEX queue_once_until ON queue_once (queue, until_us);
CREATE TRIGGER queue_clients_come AFTER INSERT ON queue_jobs WHEN new.client IS NOT NULL
    BEGIN
        INSERT INTO queue_clients
            VALUES (new.queue, new.client, new.due_us IS NULL, new.due_us IS NOT NULL)
            ON CONFLICT (queue, client) DO UPDATE
                SET waiting = waiting + excluded.waiting, out = out + excluded.out;
    END;
CREATE TRIGGER queue_clients_move AFTER UPDATE OF due_us ON queue_jobs
        WHEN old.client IS NOT NULL AND (old.due_us IS NULL) <> (new.due_us IS NULL)
    BEGIN
        UPDATE queue_clients
            SET waiting = waiting - (old.due_us IS NULL) + (new.due_us IS NULL),
                out = out - (old.due_us IS NOT NULL) + (new.due_us IS NOT NULL)
            WHERE queue = old.queue AND client = old.client;
    END;
CREATE TRIGGER queue_clients_go AFTER DELETE ON queue_jobs WHEN old.client IS NOT NULL
    BEGIN
        UPDATE queue_clients
            SET waiting = waiting - (old.due_us IS NULL), out = out - (old.due_us IS NOT NULL)
            WHERE queue = old.queue AND client = old.client;
        DELETE FROM queue_clients
            WHERE queue = old.queue AND client = old.client AND waiting <= 0 AND out <= 0;
    END;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('queue_done',1);

PRAGMA user_version = 3;
PRAGMA application_id = 1416382324;
COMMIT;
