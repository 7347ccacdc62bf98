/* For one device: everything about a row in a line. For several: the time of each, its spread and
 * its share of the roof, and for all but the first how many times as long it takes. Names and
 * shapes come last, as their length does no harm there. */
#include "bench/rows.h"

#include "common/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const bounds[] = {"compute", "memory", "launch"};

bench_row *bench_row_add(bench_report *report, bench_kind kind, const char *name,
                         const char *detail, ac_precision precision) {
  if (report->count == report->capacity) {
    int capacity = report->capacity ? 2 * report->capacity : 64;
    bench_row *grown = realloc(report->rows, (size_t)capacity * sizeof *grown);
    if (!grown) return NULL;
    report->rows = grown;
    report->capacity = capacity;
  }
  bench_row *row = &report->rows[report->count++];
  *row = (bench_row){.kind = kind, .precision = precision, .model = ""};
  snprintf(row->name, sizeof row->name, "%s", name);
  snprintf(row->detail, sizeof row->detail, "%s", detail);
  return row;
}

bool bench_row_measured(const bench_row *row) {
  for (int d = 0; d < BENCH_DEVICES; d++)
    if (row->results[d].measured) return true;
  return false;
}

int bench_count_results(const bench_report *report) {
  int count = 0;
  for (int i = 0; i < report->count; i++)
    for (int d = 0; d < report->device_count; d++) count += report->rows[i].results[d].measured;
  return count;
}

bool bench_row_matches(const char *filter, const char *name, const char *precision,
                       const char *detail) {
  char text[400];
  snprintf(text, sizeof text, "%s %s %s", name, precision, detail);
  return !filter || strstr(text, filter);
}

/* ---- roofs ----------------------------------------------------------------------------------- */

static void print_device_roofs(const ac_device *device, const ac_bench_roofs *roofs) {
  const ac_device_info *info = ac_device_get_info(device);
  printf("device       %s: %s (%s)\n", info->id, info->name, info->driver);
  for (int p = 0; p < AC_BENCH_PRECISIONS; p++) {
    const ac_bench_timing *timing = &roofs->product_timing[p];
    const char *name = ac_precision_name((ac_precision)p);
    if (!roofs->flops[p]) {
      printf("product %-4s %10s\n", name, "none");
      continue;
    }
    printf("product %-4s %10.1f GFLOP/s, spread %.1f %%%s, %" PRId64 " x %" PRId64 "\n", name,
           roofs->flops[p] * 1e-9, timing->spread * 100, timing->noisy ? " (noisy)" : "",
           roofs->size[p], roofs->size[p]);
  }
  printf("copy         %10.1f GB/s, spread %.1f %%%s, read and written, %s\n", roofs->bytes * 1e-9,
         roofs->copy_timing.spread * 100, roofs->copy_timing.noisy ? " (noisy)" : "",
         text_bytes(roofs->copied).text);
  printf("launch       %13s queued, %s alone and waited for\n", text_duration(roofs->launch).text,
         text_duration(roofs->latency).text);
}

void bench_print_roofs(const bench_report *report) {
  for (int d = 0; d < report->device_count; d++)
    print_device_roofs(report->devices[d], &report->roofs[d]);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static const char *const headings[] = {"product", "op", "step"};

static bool has_count(bench_kind kind) {
  return kind == BENCH_OP;
}

void bench_print_header(const bench_report *report, bench_kind kind) {
  putchar('\n');
  if (report->device_count > 1) {
    for (int d = 0; d < report->device_count; d++)
      printf("%s%-*.*s", d ? "  " : "", d ? 35 : 28, d ? 35 : 28,
             ac_device_get_info(report->devices[d])->id);
    putchar('\n');
  }
  for (int d = 0; d < report->device_count; d++) {
    printf("%s%11s %8s %8s", d ? "  " : "", "median", "spread", "of roof");
    if (d) printf(" %7s", "ratio");
  }
  if (report->device_count == 1)
    printf(" %-8s %9s %8s %10s", "bound by", "GFLOP/s", "GB/s", "bytes");
  printf("%s  %s\n", has_count(kind) ? "  times" : "", headings[kind]);
}

static void print_result(const bench_row *row, int d) {
  const bench_result *r = &row->results[d], *first = &row->results[0];
  if (d) printf("  ");
  if (!r->measured) {
    printf("%11s %8s %8s", "-", "-", "-");
    if (d) printf(" %7s", "-");
    return;
  }
  printf("%11s %6.1f %% %6.0f %%", text_duration(r->timing.median).text, r->timing.spread * 100,
         r->limit / r->timing.median * 100);
  if (d && first->measured) printf(" %7.2f", r->timing.median / first->timing.median);
  else if (d) printf(" %7s", "-");
}

static void print_rates(const bench_result *r) {
  if (!r->measured) {
    printf(" %-8s %9s %8s %10s", "-", "-", "-", "-");
    return;
  }
  printf(" %-8s %9.1f %8.1f %10s", bounds[r->bound], r->flops / r->timing.median * 1e-9,
         r->bytes / r->timing.median * 1e-9, text_bytes((uint64_t)r->bytes).text);
}

static bool any(const bench_report *report, const bench_row *row, bool cached) {
  for (int d = 0; d < report->device_count; d++)
    if (cached ? row->results[d].cached : row->results[d].timing.noisy) return true;
  return false;
}

void bench_print_row(const bench_report *report, const bench_row *row) {
  for (int d = 0; d < report->device_count; d++) print_result(row, d);
  if (report->device_count == 1) print_rates(&row->results[0]);
  if (has_count(row->kind)) printf(" %6" PRId64, row->count);
  printf("  %s %s %s%s%s\n", row->name, ac_precision_name(row->precision), row->detail,
         any(report, row, true) ? " (cached)" : "", any(report, row, false) ? " (noisy)" : "");
  fflush(stdout);
}

void bench_print_notes(const bench_report *report) {
  bool cached = false;
  int noisy = 0;
  for (int i = 0; i < report->count; i++) {
    cached |= any(report, &report->rows[i], true);
    noisy += any(report, &report->rows[i], false);
  }
  putchar('\n');
  printf(
      "The spread is that of the middle half of the samples, relative to the median, or what lies "
      "between rounds or visits of a row.\n");
  if (cached) printf("(cached): operands so small that a cache may hold them all.\n");
  if (noisy)
    printf("(noisy): %d of %d rows did not come to the wanted spread: the machine is too noisy for "
           "them.\n",
           noisy, report->count);
}
