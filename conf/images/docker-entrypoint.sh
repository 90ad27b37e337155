#!/bin/sh
# Makes the database of POSTGRES_USER, POSTGRES_PASSWORD and POSTGRES_DB the first time, then serves.
set -eu
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    secret=$(mktemp)
    printf '%s\n' "$POSTGRES_PASSWORD" > "$secret"
    initdb --username="$POSTGRES_USER" --pwfile="$secret" --encoding=UTF8 --auth-host=scram-sha-256 --auth-local=trust
    rm -f "$secret"
    echo 'host all all all scram-sha-256' >> "$PGDATA/pg_hba.conf"
    # Served on the socket alone until the database is there: "healthy" is never reported too early.
    pg_ctl --wait --options="-c listen_addresses=''" start
    [ "$POSTGRES_DB" = postgres ] || createdb --username="$POSTGRES_USER" "$POSTGRES_DB"
    pg_ctl --wait --mode=fast stop
fi
exec "$@" -c listen_addresses='*'
