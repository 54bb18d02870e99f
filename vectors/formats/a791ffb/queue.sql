BEGIN TRANSACTION;
CREATE TABLE entries (
        log INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        at_us INTEGER NOT NULL,
        total INTEGER NOT NULL,
        PRIMARY KEY (log, seq)
    ) WITHOUT ROWID;
CREATE TABLE guests (name TEXT PRIMARY KEY, format INTEGER NOT NULL);
INSERT INTO "guests" VALUES('queue',1);
CREATE TABLE queue_dead (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        queue INTEGER NOT NULL,
        ms INTEGER NOT NULL,
        number INTEGER NOT NULL,
        deliveries INTEGER NOT NULL,
        why TEXT,
        body NOT NULL
    );
CREATE TABLE queue_done (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        queue INTEGER NOT NULL,
        ms INTEGER NOT NULL,
        number INTEGER NOT NULL,
        deliveries INTEGER NOT NULL,
        body NOT NULL
    );
INSERT INTO "queue_done" VALUES(1,1,1795868959772,0,1,'{"n":"1","to":"ann"}');
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
    );
INSERT INTO "queue_jobs" VALUES(2,1,1795868959780,0,1795868960528687,NULL,1,0,'w','exited with 1','{"n":"2","to":"ann"}');
INSERT INTO "queue_jobs" VALUES(3,1,1795868959787,0,1795868989834470,NULL,1,1,'w',NULL,'{"n":"3","to":"ann"}');
INSERT INTO "queue_jobs" VALUES(4,1,1795868959794,0,NULL,NULL,0,0,NULL,NULL,'{"n":"4","to":"ann"}');
INSERT INTO "queue_jobs" VALUES(5,1,1795868959800,0,NULL,NULL,0,0,NULL,NULL,'{"n":"5","to":"ann"}');
INSERT INTO "queue_jobs" VALUES(6,1,1795868959807,0,NULL,NULL,0,0,NULL,NULL,'{"n":"6","to":"ann"}');
CREATE TABLE queue_once (
        queue INTEGER NOT NULL,
        once TEXT NOT NULL,
        ms INTEGER NOT NULL,
        number INTEGER NOT NULL,
        until_us INTEGER NOT NULL,
        PRIMARY KEY (queue, once)
    ) WITHOUT ROWID;
INSERT INTO "queue_once" VALUES(1,'the third',1795868959787,0,1795869559787253);
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
    );
INSERT INTO "queues" VALUES(1,'mail','{"bound":10,"all":false,"remember_us":600000000}','{"visibility_us":30000000,"deliveries":3,"keep_dead":1000,"keep_done":5}',0,5,1795868959807,0,179586895,3,0,3,2,0,6,0,0,3,0,1,0,0);
CREATE TABLE resets (
        subject TEXT NOT NULL,
        counted INTEGER NOT NULL,
        number INTEGER NOT NULL,
        until_us INTEGER NOT NULL,
        PRIMARY KEY (subject, counted)
    ) WITHOUT ROWID;
CREATE TABLE spent (number INTEGER PRIMARY KEY, until_us INTEGER NOT NULL);
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
INSERT INTO "store" VALUES(1,21740136253593970,1,'',0,0,'',0);
CREATE TABLE texts (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);
CREATE UNIQUE INDEX queue_jobs_ids ON queue_jobs (queue, ms, number);
CREATE INDEX queue_jobs_due ON queue_jobs (queue, due_us, ms, number);
CREATE INDEX queue_dead_oldest ON queue_dead (queue, id);
CREATE INDEX queue_done_oldest ON queue_done (queue, id);
CREATE INDEX queue_once_until ON queue_once (queue, until_us);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('queue_done',1);

PRAGMA user_version = 1;
PRAGMA application_id = 1416382324;
COMMIT;
