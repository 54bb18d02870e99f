BEGIN TRANSACTION;
CREATE TABLE entries (
        log INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        at_us INTEGER NOT NULL,
        total INTEGER NOT NULL,
        PRIMARY KEY (log, seq)
    ) WITHOUT ROWID;
INSERT INTO "entries" VALUES(10,0,1795851964548594,2);
INSERT INTO "entries" VALUES(10,1,1795851964549550,3);
INSERT INTO "entries" VALUES(15,0,1795851964553119,2);
INSERT INTO "entries" VALUES(15,1,1795851964553966,3);
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
INSERT INTO "states" VALUES('user:0',1,2,1796240765538474,X'0100EA9CCEA5BEB5980300');
INSERT INTO "states" VALUES('user:1',3,4,1796240765542065,X'0100F1B8CEA5BEB5980300');
INSERT INTO "states" VALUES('user:2',5,6,1795981565544068,X'0100C488B6D9F8AD980300');
INSERT INTO "states" VALUES('user:3',3,7,1796256001000000,X'01008080C48CBFEA970303');
INSERT INTO "states" VALUES('user:4',8,9,1796256001000000,X'01008080C48CBFEA970303');
INSERT INTO "states" VALUES('user:5',10,11,1798443965549550,X'01010A0000020003');
INSERT INTO "states" VALUES('user:6',12,13,1798588801000000,X'010090360000000000000000000300');
INSERT INTO "states" VALUES('user:7',14,15,1798443965553966,X'01010F00000200039F8FCFA5BEB5980300');
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
INSERT INTO "store" VALUES(1,-973314580282023034,1025,'',0,0,'',0);
CREATE TABLE texts (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);
INSERT INTO "texts" VALUES(1,'gcra/30d');
INSERT INTO "texts" VALUES(2,'20/30d burst 20 via gcra');
INSERT INTO "texts" VALUES(3,'token_bucket/30d');
INSERT INTO "texts" VALUES(4,'20/30d burst 20 refill greedy via token_bucket');
INSERT INTO "texts" VALUES(5,'uniform/30d');
INSERT INTO "texts" VALUES(6,'20/30d via uniform');
INSERT INTO "texts" VALUES(7,'20/30d burst 20 refill interval via token_bucket');
INSERT INTO "texts" VALUES(8,'fixed_window/30d');
INSERT INTO "texts" VALUES(9,'20/30d anchor epoch via fixed_window');
INSERT INTO "texts" VALUES(10,'sliding_log/30d');
INSERT INTO "texts" VALUES(11,'20/30d via sliding_log');
INSERT INTO "texts" VALUES(12,'sliding_window/30d');
INSERT INTO "texts" VALUES(13,'20/30d precision 3d rounding conservative via sliding_window');
INSERT INTO "texts" VALUES(14,'gcra/30d,sliding_log/30d');
INSERT INTO "texts" VALUES(15,'20/30d burst 20 via gcra, 100/30d via sliding_log');

PRAGMA user_version = 1;
PRAGMA application_id = 1416382324;
COMMIT;
