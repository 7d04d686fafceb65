/* SPDX-License-Identifier: Apache-2.0 */
#include "page.h"

#include <inttypes.h>
#include <string.h>

#include "../store/tiers.h"
#include "../text/markup.h"
#include "../text/memory.h"
#include "../text/output.h"
#include "../text/units.h"

/* The rows of a table, and the bars of the chart, that are shown. */
#define ROWS_MAX 20u
#define DAYS_MAX 60u

static const char head[] =
    "<!DOCTYPE html>\n"
    "<html lang=\"en\">\n"
    "<head>\n"
    "<meta charset=\"utf-8\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
    "'unsafe-inline'\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<meta name=\"color-scheme\" content=\"light dark\">\n"
    "<title>Kiln report</title>\n"
    "<style>\n"
    ":root { --back: #fff; --text: #1c2024; --dim: #60666c; --line: #d9dde1; --saved: #18794e; "
    "--lost: #b8500b; --box: #f5f6f8 }\n"
    "@media (prefers-color-scheme: dark) { :root { --back: #16181a; --text: #e8eaed; --dim: "
    "#9ba1a6; --line: #34383c; --saved: #4cc38a; --lost: #f0904c; --box: #202427 } }\n"
    "body { background: var(--back); color: var(--text); font: 15px/1.45 system-ui, sans-serif; "
    "margin: 2em auto; max-width: 62em; padding: 0 1em }\n"
    "h1 { font-size: 1.5em; margin: 0 } h2 { font-size: 1.1em; margin: 2em 0 .5em }\n"
    "p { margin: .3em 0 } .dim { color: var(--dim) }\n"
    ".tiles { display: flex; flex-wrap: wrap; gap: .7em; margin-top: 1.2em }\n"
    ".tile { background: var(--box); border-radius: 6px; padding: .6em 1em; min-width: 8em }\n"
    ".tile b { display: block; font-size: 1.35em } .saved { color: var(--saved) } .lost { color: "
    "var(--lost) }\n"
    ".wide { overflow-x: auto } table { border-collapse: collapse; width: 100% }\n"
    "th, td { text-align: left; padding: .3em .8em .3em 0; border-bottom: 1px solid var(--line); "
    "vertical-align: top }\n"
    "td { overflow-wrap: anywhere } th { color: var(--dim); font-weight: normal; white-space: "
    "nowrap } .n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums }\n"
    "svg { width: 100%; height: auto } svg text { fill: var(--dim); font: 11px system-ui, "
    "sans-serif }\n"
    "</style>\n"
    "</head>\n"
    "<body>\n";

static uint64_t number(const json_t *object, const char *name)
{
    return (uint64_t)json_integer_value(json_object_get(object, name));
}

static const char *text(const json_t *object, const char *name)
{
    const char *value = json_string_value(json_object_get(object, name));
    return value != NULL ? value : "";
}

static const char *or_unknown(const char *value)
{
    return value[0] != '\0' ? value : "unknown";
}

/* ---- the top ---- */

static void write_tile(FILE *file, const char *kind, const char *value, const char *label)
{
    fprintf(file, "<div class=\"tile\"><b class=\"%s\">%s</b>%s</div>\n", kind, value, label);
}

static void write_number_tile(FILE *file, uint64_t value, const char *label)
{
    char shown[UNIT_TEXT_SIZE];
    snprintf(shown, sizeof shown, "%" PRIu64, value);
    write_tile(file, "", shown, label);
}

static void write_top(FILE *file, const json_t *report)
{
    char first[UNIT_TEXT_SIZE], last[UNIT_TEXT_SIZE], made[UNIT_TEXT_SIZE];
    fputs("<h1>Kiln report</h1>\n<p>", file);
    markup_text(file, text(report, "location"));
    format_time((int64_t)number(report, "generated"), made);
    if (number(report, "first") == 0) {
        fprintf(file, "</p>\n<p class=\"dim\">no events in this period; written %s</p>\n", made);
    } else {
        fprintf(file, "</p>\n<p class=\"dim\">events from %s to %s; written %s</p>\n",
                format_time((int64_t)number(report, "first"), first),
                format_time((int64_t)number(report, "last"), last), made);
    }
}

static void write_tiles(FILE *file, const json_t *report)
{
    char shown[UNIT_TEXT_SIZE];
    const json_t *total = json_object_get(report, "total");
    const json_t *rate = json_object_get(report, "hit_rate");
    fputs("<div class=\"tiles\">\n", file);
    write_tile(file, "saved", format_duration(number(total, "saved_ns"), shown), "saved");
    write_tile(file, "lost", format_duration(number(total, "lost_ns"), shown),
               "spent building and waiting");
    if (json_is_real(rate)) {
        snprintf(shown, sizeof shown, "%.1f %%", 100 * json_real_value(rate));
        write_tile(file, "", shown, "of requests were hits");
    }
    write_number_tile(file, number(total, "hits"), "hits in the store");
    write_number_tile(file, number(total, "memory_hits"), "hits in memory");
    write_number_tile(file, number(total, "builds"), "builds");
    write_number_tile(file, number(total, "failures"), "failed builds");
    fputs("</div>\n", file);
}

/* ---- the chart ---- */

static uint64_t largest(const json_t *days, size_t first)
{
    uint64_t most = 1;
    for (size_t i = first; i < json_array_size(days); i++) {
        const json_t *day = json_array_get(days, i);
        const uint64_t saved = number(day, "saved_ns"), lost = number(day, "lost_ns");
        most = saved > most ? saved : most;
        most = lost > most ? lost : most;
    }
    return most;
}

static void write_bar(FILE *file, const char *kind, double x, double width, double y, double height,
                      const char *label, const char *noun, uint64_t duration_ns)
{
    char shown[UNIT_TEXT_SIZE];
    fprintf(file,
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
            "fill=\"var(--%s)\"><title>",
            x, y, width, height, kind);
    markup_text(file, label);
    fprintf(file, ": %s %s</title></rect>\n", format_duration(duration_ns, shown), noun);
}

/* Saved time goes up from the line, and lost time down. */
static void write_chart(FILE *file, const json_t *days)
{
    const size_t count = json_array_size(days);
    const size_t first = count > DAYS_MAX ? count - DAYS_MAX : 0;
    if (count == 0) {
        return;
    }
    const double most = (double)largest(days, first);
    const double step = 780.0 / (double)(count - first), width = step > 40 ? 32 : step * 0.8;
    char shown[UNIT_TEXT_SIZE];
    fputs("<h2>Time per day</h2>\n<p class=\"dim\"><span class=\"saved\">saved</span> above the "
          "line, <span class=\"lost\">spent building and waiting</span> below</p>\n<svg "
          "viewBox=\"0 0 800 230\" role=\"img\" aria-label=\"Time saved and lost per day\">\n",
          file);
    for (size_t i = first; i < count; i++) {
        const json_t *day = json_array_get(days, i);
        const uint64_t saved = number(day, "saved_ns"), lost = number(day, "lost_ns");
        const double x = 10 + step * (double)(i - first);
        const double up = 95 * (double)saved / most, down = 95 * (double)lost / most;
        write_bar(file, "saved", x, width, 105 - up, up, text(day, "label"), "saved", saved);
        write_bar(file, "lost", x, width, 105, down, text(day, "label"), "lost", lost);
    }
    fputs("<line x1=\"0\" x2=\"800\" y1=\"105\" y2=\"105\" stroke=\"var(--line)\"/>\n"
          "<text x=\"10\" y=\"222\">",
          file);
    markup_text(file, text(json_array_get(days, first), "label"));
    fputs("</text>\n<text x=\"790\" y=\"222\" text-anchor=\"end\">", file);
    markup_text(file, text(json_array_get(days, count - 1), "label"));
    fprintf(file, "</text>\n<text x=\"790\" y=\"12\" text-anchor=\"end\">%s</text>\n</svg>\n",
            format_duration((uint64_t)most, shown));
}

/* ---- tables ---- */

static void begin_table(FILE *file, const char *title, const char *headings)
{
    fprintf(file, "<h2>%s</h2>\n<div class=\"wide\"><table>\n<tr>%s</tr>\n", title, headings);
}

static void end_table(FILE *file, size_t left_out)
{
    fputs("</table></div>\n", file);
    if (left_out > 0) {
        fprintf(file, "<p class=\"dim\">and %zu more</p>\n", left_out);
    }
}

static void write_cell(FILE *file, const char *value)
{
    fputs("<td>", file);
    markup_text(file, value);
    fputs("</td>", file);
}

static void write_number_cell(FILE *file, uint64_t value)
{
    fprintf(file, "<td class=\"n\">%" PRIu64 "</td>", value);
}

static void write_duration_cell(FILE *file, uint64_t value)
{
    char shown[UNIT_TEXT_SIZE];
    fprintf(file, "<td class=\"n\">%s</td>", format_duration(value, shown));
}

static void write_sums(FILE *file, const char *title, const char *heading, const json_t *list)
{
    const size_t count = json_array_size(list);
    if (count == 0) {
        return;
    }
    owned char *headings = text_of(
        "<th>%s</th><th class=\"n\">saved</th><th class=\"n\">spent</th><th class=\"n\">hits</th>"
        "<th class=\"n\">builds</th><th class=\"n\">failed</th>",
        heading);
    begin_table(file, title, headings);
    for (size_t i = 0; i < count && i < ROWS_MAX; i++) {
        const json_t *sums = json_array_get(list, i);
        fputs("<tr>", file);
        write_cell(file, or_unknown(text(sums, "label")));
        write_duration_cell(file, number(sums, "saved_ns"));
        write_duration_cell(file, number(sums, "lost_ns"));
        write_number_cell(file, number(sums, "hits") + number(sums, "memory_hits"));
        write_number_cell(file, number(sums, "builds"));
        write_number_cell(file, number(sums, "failures"));
        fputs("</tr>\n", file);
    }
    end_table(file, count > ROWS_MAX ? count - ROWS_MAX : 0);
}

static void write_misses(FILE *file, const json_t *misses)
{
    if (json_array_size(misses) == 0) {
        return;
    }
    begin_table(file, "Misses that cost most",
                "<th class=\"n\">spent</th><th class=\"n\">builds</th><th>program</th>"
                "<th>built</th><th>device</th><th>cause</th>");
    size_t i;
    json_t *miss;
    json_array_foreach(misses, i, miss)
    {
        fputs("<tr>", file);
        write_duration_cell(file, number(miss, "lost_ns"));
        write_number_cell(file, number(miss, "builds") + number(miss, "failures"));
        write_cell(file, or_unknown(text(miss, "program")));
        fputs("<td>", file);
        markup_text(file, or_unknown(text(miss, "name")));
        fprintf(file, "<br><span class=\"dim n\">%.12s</span></td>", text(miss, "digest"));
        write_cell(file, or_unknown(text(miss, "device")));
        write_cell(file, text(miss, "cause"));
        fputs("</tr>\n", file);
    }
    end_table(file, 0);
}

static void write_upgrades(FILE *file, const json_t *drivers)
{
    if (json_array_size(drivers) == 0) {
        return;
    }
    begin_table(file, "Upgrades",
                "<th>driver</th><th class=\"n\">programs of older drivers</th>"
                "<th class=\"n\">ready</th>");
    size_t i;
    json_t *driver;
    json_array_foreach(drivers, i, driver)
    {
        fputs("<tr>", file);
        write_cell(file, text(driver, "driver"));
        write_number_cell(file, number(driver, "programs"));
        write_number_cell(file, number(driver, "ready"));
        fputs("</tr>\n", file);
    }
    end_table(file, 0);
}

static void write_tiers(FILE *file, const json_t *tiers)
{
    if (json_array_size(tiers) == 0) {
        return;
    }
    begin_table(file, "Tiers",
                "<th>tier</th><th class=\"n\">hits</th><th class=\"n\">misses</th>"
                "<th class=\"n\">puts</th><th class=\"n\">dropped</th>"
                "<th class=\"n\">faults</th><th class=\"n\">latency</th><th>state</th>");
    size_t i;
    json_t *tier;
    json_array_foreach(tiers, i, tier)
    {
        owned char *outage = tier_outage(tier);
        fputs("<tr>", file);
        write_cell(file, text(tier, "location"));
        write_number_cell(file, number(tier, "hits"));
        write_number_cell(file, number(tier, "misses"));
        write_number_cell(file, number(tier, "puts"));
        write_number_cell(file, number(tier, "dropped"));
        write_number_cell(file, number(tier, "faults"));
        if (number(tier, "latency_ns") > 0) {
            write_duration_cell(file, number(tier, "latency_ns"));
        } else {
            fputs("<td class=\"n\">-</td>", file);
        }
        write_cell(file, outage != NULL ? outage : "asked");
        fputs("</tr>\n", file);
    }
    end_table(file, 0);
}

static void write_contents(FILE *file, const json_t *cache)
{
    char size[UNIT_TEXT_SIZE], limit[UNIT_TEXT_SIZE], oldest[UNIT_TEXT_SIZE],
        newest[UNIT_TEXT_SIZE];
    const uint64_t entries = number(cache, "entries");
    fprintf(file, "<h2>The cache</h2>\n<p>%" PRIu64 " %s, %s", entries,
            noun_of(entries, "entry", "entries"), format_size(number(cache, "bytes"), size));
    if (number(cache, "max_bytes") > 0) {
        fprintf(file, " of at most %s", format_size(number(cache, "max_bytes"), limit));
    }
    if (entries > 0) {
        fprintf(file, "; built from %s to %s; %" PRIu64 " not used for 30 days",
                format_time((int64_t)number(cache, "oldest"), oldest),
                format_time((int64_t)number(cache, "newest"), newest), number(cache, "unused"));
    }
    fputs("</p>\n", file);
}

static void write_journal(FILE *file, const json_t *journal)
{
    char size[UNIT_TEXT_SIZE];
    fprintf(file, "<p class=\"dim\">The journal has %" PRIu64 " events, %s",
            number(journal, "events"), format_size(number(journal, "bytes"), size));
    if (number(journal, "damaged") + number(journal, "newer") > 0) {
        fprintf(file, "; %" PRIu64 " damaged and %" PRIu64 " newer records were skipped",
                number(journal, "damaged"), number(journal, "newer"));
    }
    fputs(".</p>\n", file);
}

void page_write(FILE *file, const json_t *report)
{
    fputs(head, file);
    write_top(file, report);
    write_tiles(file, report);
    write_chart(file, json_object_get(report, "days"));
    write_misses(file, json_object_get(report, "misses"));
    write_sums(file, "Programs", "program", json_object_get(report, "programs"));
    write_sums(file, "Devices", "device", json_object_get(report, "devices"));
    write_sums(file, "Drivers", "driver", json_object_get(report, "drivers"));
    write_upgrades(file, json_object_get(report, "upgrades"));
    write_tiers(file, json_object_get(report, "tiers"));
    write_contents(file, json_object_get(report, "cache"));
    write_journal(file, json_object_get(report, "journal"));
    fputs("</body>\n</html>\n", file);
}
