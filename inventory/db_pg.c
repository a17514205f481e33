#ifdef RK_WITH_LIBPQ
#include <libpq-fe.h>
#include <stdio.h>
#include <string.h>

#include "inventory/base/map.h"
#include "inventory/base/str.h"
#include "inventory/db.h"

enum { ARGS_MAX = 4096, WRITER_LOCK = 0x7261636b }; /* the advisory lock that serialises writers: "rack" */

struct pg {
	struct rk_db db;
	PGconn *conn;
	struct rk_map *statements; /* SQL text -> number of the prepared statement on this connection */
	size_t prepared;
	bool in_transaction;
};

static struct pg *self(const struct rk_db *db)
{
	return (struct pg *)db;
}

/* SQLSTATE, or its class (two characters), and what it means for the user. */
#define ONLY_READS "this server only reads (a standby?); name the primary, or add target_session_attrs=read-write to the URI"
static const struct {
	const char *state;
	int rc;
	const char *hint;
} meanings[] = {
	{ "23", RK_CONFLICT, NULL },
	{ "40", RK_CONFLICT, "try again" },
	{ "55P03", RK_CONFLICT, "another writer has kept the store locked for 30 s; see pg_stat_activity, then try again" },
	{ "25006", RK_FAILED, ONLY_READS },
	{ "0A000", RK_FAILED, ONLY_READS }, /* of all our statements a server lacks one only: to begin a write while it recovers */
	{ "42501", RK_FAILED, "the role needs CREATE on the schema, or must own the tables of racksh" },
	{ "53100", RK_FAILED, "the server's disk is full; nothing was changed; free some space there and try again" },
	{ "53300", RK_UNREACHABLE, "the server has no connection left; try again, or raise max_connections" },
	{ "53", RK_FAILED, "the server ran out of resources; nothing was changed; see its log" },
	{ "57", RK_UNREACHABLE, "the server is stopping or starting; try again" },
	{ "58", RK_FAILED, "the server's disk failed; see its log" },
	{ "08", RK_UNREACHABLE, "check that the server runs and can be reached" },
	{ "XX", RK_FAILED, "the server found damage; see its log" },
};

/* The server's text: its first line, without the severity word and with nothing that could play with a terminal. */
static void tidy(struct rk_str *out, const char *text)
{
	static const char *const words[] = { "ERROR:  ", "FATAL:  ", "connection to server " };

	for (size_t i = 0; i < 2; i++)
		if (rk_starts_with(text, words[i]))
			text += strlen(words[i]);
	rk_str_add_escaped(out, text, strcspn(text, "\n"));
}

static int lost(struct pg *p, struct rk_err *err)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;

	tidy(&text, PQerrorMessage(p->conn));
	p->in_transaction = false;
	rk_err_set(err, RK_UNREACHABLE, "the PostgreSQL store does not answer: %s", rk_str_text(&text));
	rk_err_hint(err, "check that the server runs and can be reached; what was not committed was not changed");
	return RK_UNREACHABLE;
}

static int map_error(struct pg *p, const PGresult *result, struct rk_err *err)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	const char *primary = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
	const char *constraint = PQresultErrorField(result, PG_DIAG_CONSTRAINT_NAME);

	if (!state || PQstatus(p->conn) == CONNECTION_BAD)
		return lost(p, err);
	tidy(&text, primary ? primary : PQerrorMessage(p->conn));
	if (strcmp(state, "23503") == 0)
		constraint = "foreign_key";
	if (rk_starts_with(state, "23"))
		snprintf(p->db.violation, sizeof(p->db.violation), "%s", constraint ? constraint : "unnamed");
	for (size_t i = 0; i < RK_ARRAY_SIZE(meanings); i++) {
		if (!rk_starts_with(state, meanings[i].state))
			continue;
		rk_err_set(err, meanings[i].rc, "the PostgreSQL store refused: %s", rk_str_text(&text));
		if (meanings[i].hint)
			rk_err_hint(err, "%s", meanings[i].hint);
		return meanings[i].rc;
	}
	return rk_err_set(err, RK_FAILED, "the PostgreSQL store refused a statement: %s (SQLSTATE %s)", rk_str_text(&text), state);
}

/* A statement without arguments; also several in one text. */
static int simple(struct pg *p, const char *sql, struct rk_err *err)
{
	PGresult *result = PQexec(p->conn, sql);
	ExecStatusType status = PQresultStatus(result);
	int rc = status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK ? 0 : map_error(p, result, err);

	PQclear(result);
	return rc;
}

static int settings(struct pg *p, struct rk_err *err)
{
	return simple(p, "SET client_min_messages = warning; SET lock_timeout = '30s'; SET client_encoding = 'UTF8'", err);
}

static void forget_statements(struct pg *p)
{
	rk_map_free(p->statements);
	p->statements = rk_map_new();
	p->prepared = 0;
}

/* Outside a transaction a lost connection is simply made again: nothing was under way. */
static int reconnect(struct pg *p, struct rk_err *err)
{
	if (PQstatus(p->conn) == CONNECTION_OK || p->in_transaction)
		return 0;
	PQreset(p->conn);
	forget_statements(p);
	return PQstatus(p->conn) == CONNECTION_OK ? settings(p, err) : lost(p, err);
}

static char *numbered(const char *sql)
{
	struct rk_str out = RK_STR_INIT;
	int n = 0;

	for (; *sql; sql++) {
		if (*sql == '?')
			rk_str_addf(&out, "$%d", ++n);
		else
			rk_str_addc(&out, *sql);
	}
	return rk_str_steal(&out);
}

static int prepare(struct pg *p, const char *sql, char name[32], struct rk_err *err)
{
	size_t at;

	if (rk_map_get(p->statements, sql, &at)) {
		snprintf(name, 32, "s%zu", at);
		return 0;
	}
	snprintf(name, 32, "s%zu", p->prepared);
	char *text RK_CLEANUP_FREE = numbered(sql);
	PGresult *result = PQprepare(p->conn, name, text, 0, NULL);
	int rc = PQresultStatus(result) == PGRES_COMMAND_OK ? 0 : map_error(p, result, err);
	PQclear(result);
	if (!rc)
		rk_map_add(p->statements, sql, p->prepared++, NULL);
	return rc;
}

/* Arguments as texts; numbers are printed into `numbers` (32 bytes each). */
static void write_args(const struct rk_db_value *args, size_t n, const char **texts, char *numbers)
{
	for (size_t i = 0; i < n; i++) {
		char *number = numbers + i * 32;
		texts[i] = args[i].type == RK_DB_NULL ? NULL : args[i].type == RK_DB_TEXT ? args[i].s : number;
		if (args[i].type == RK_DB_INT)
			snprintf(number, 32, "%lld", (long long)args[i].i);
		else if (args[i].type == RK_DB_REAL)
			snprintf(number, 32, "%.17g", args[i].d);
	}
}

static int run(struct rk_db *db, const char *sql, const struct rk_db_value *args, size_t n, rk_db_row_fn *fn, void *ctx, struct rk_err *err)
{
	struct pg *p = self(db);
	const char **texts RK_CLEANUP_FREE = rk_xcalloc(n + 1, sizeof(*texts));
	char *numbers RK_CLEANUP_FREE = rk_xmalloc((n + 1) * 32), name[32];
	int rc = n > ARGS_MAX ? rk_err_set(err, RK_BUG, "%zu arguments in one statement", n) : reconnect(p, err);

	if (!rc)
		rc = prepare(p, sql, name, err);
	if (rc)
		return rc;
	write_args(args, n, texts, numbers);
	PGresult *result = PQexecPrepared(p->conn, name, (int)n, texts, NULL, NULL, 0);
	ExecStatusType status = PQresultStatus(result);
	if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
		rc = map_error(p, result, err);
	db->changed = strtoll(PQcmdTuples(result), NULL, 10);
	struct rk_db_row row = { db, result, 0, PQnfields(result) };
	for (; !rc && fn && row.at < PQntuples(result); row.at++)
		rc = fn(ctx, &row, err);
	PQclear(result);
	return rc;
}

static void no_notice(void *arg, const char *message)
{
	(void)arg, (void)message;
}

static void close_db(struct rk_db *db)
{
	PQfinish(self(db)->conn);
	rk_map_free(self(db)->statements);
	free(db);
}

static int open_db(const char *uri, bool write, struct rk_db **ret, struct rk_err *err)
{
	/* A keyword behind another wins: the URI may change all but the name. */
	const char *const keys[] = { "connect_timeout", "tcp_user_timeout", "keepalives_idle", "fallback_application_name", "dbname", NULL };
	const char *const values[] = { "10", "30000", "15", "racksh", uri, NULL };
	struct pg *p = rk_xcalloc(1, sizeof(*p));

	(void)write;
	p->db.driver = &rk_db_postgresql;
	p->statements = rk_map_new();
	p->conn = PQconnectdbParams(keys, values, 1);
	PQsetNoticeProcessor(p->conn, no_notice, NULL);
	int rc = PQstatus(p->conn) == CONNECTION_OK ? settings(p, err) : lost(p, err);
	if (rc) {
		close_db(&p->db);
		return rc;
	}
	*ret = &p->db;
	return 0;
}

static void rollback(struct rk_db *db)
{
	struct pg *p = self(db);

	if (p->in_transaction)
		PQclear(PQexec(p->conn, "ROLLBACK"));
	p->in_transaction = false;
}

static int begin(struct rk_db *db, bool write, struct rk_err *err)
{
	struct pg *p = self(db);
	char *lock RK_CLEANUP_FREE = rk_xasprintf("SELECT pg_advisory_xact_lock(%d)", WRITER_LOCK);
	int rc = RK_UNREACHABLE;

	/* A connection that died meanwhile is found out here, where nothing has been done yet: once more on a new one. */
	for (int tries = 0; tries < 2 && rc == RK_UNREACHABLE; tries++) {
		rc = reconnect(p, err);
		if (!rc)
			rc = simple(p, write ? "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE" : "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", err);
	}
	if (!rc)
		rk_err_clear(err);
	p->in_transaction = !rc;
	/* One writer at a time: what it reads after this cannot change under it. */
	if (!rc && write)
		rc = simple(p, lock, err);
	if (rc)
		rollback(db);
	return rc;
}

static int commit(struct rk_db *db, struct rk_err *err)
{
	struct pg *p = self(db);

	db->violation[0] = '\0';
	PGresult *result = PQexec(p->conn, "COMMIT");
	int rc = PQresultStatus(result) == PGRES_COMMAND_OK ? 0 : map_error(p, result, err);
	/* The answer to COMMIT in an aborted transaction is a successful ROLLBACK. */
	if (!rc && strcmp(PQcmdStatus(result), "ROLLBACK") == 0)
		rc = rk_err_set(err, RK_FAILED, "the PostgreSQL store rolled the change back");
	PQclear(result);
	p->in_transaction = false;
	if (rc == RK_UNREACHABLE) {
		rk_err_while(err, "whether the last change was kept is unknown");
		rk_err_hint(err, "read the state again before repeating anything");
	}
	return rc;
}

static int has_table(struct rk_db *db, const char *table, bool *ret, struct rk_err *err)
{
	int64_t n = 0;
	const struct rk_db_value name = RK_DB_S(table);
	int rc = rk_db_one_int(db, "SELECT COUNT(*) FROM pg_catalog.pg_tables WHERE schemaname = current_schema() AND tablename = ?", &name, 1, 0, &n, err);

	if (!rc)
		*ret = n > 0;
	return rc;
}

static bool is_null(const struct rk_db_row *row, int column)
{
	return PQgetisnull(row->native, row->at, column);
}

static int64_t get_int(const struct rk_db_row *row, int column)
{
	return strtoll(PQgetvalue(row->native, row->at, column), NULL, 10);
}

static double get_real(const struct rk_db_row *row, int column)
{
	double value = 0;

	rk_parse_double(PQgetvalue(row->native, row->at, column), &value);
	return value;
}

static const char *get_text(const struct rk_db_row *row, int column)
{
	return is_null(row, column) ? NULL : PQgetvalue(row->native, row->at, column);
}

const struct rk_db_driver rk_db_postgresql = {
	.scheme = "postgresql://", .open = open_db, .close = close_db, .run = run, .begin = begin, .commit = commit, .rollback = rollback,
	.has_table = has_table, .is_null = is_null, .get_int = get_int, .get_real = get_real, .get_text = get_text,
};
#endif
