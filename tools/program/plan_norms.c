#include "program/plan_norms.h"

#include "common/message.h"
#include "common/text.h"

#include <inttypes.h>
#include <stdio.h>

/* What one of the others is planned with. */
static struct {
  void (*change)(ac_plan_desc *desc);
  ac_batch_norm_statistics statistics;
  int64_t micro_batch;
} asked;

static void change_statistics(ac_plan_desc *desc) {
  if (asked.change) asked.change(desc);
  desc->batch_norm = asked.statistics;
  desc->micro_batch = asked.micro_batch;
}

static void take(priced_norm *row, const ac_plan_info *info) {
  row->fits = true;
  row->micro_batch = info->micro_batch;
  row->bytes = info->bytes.total;
  row->seconds = info->predicted_seconds;
}

static int price(const setup *s, priced_norm *row) {
  ac_plan *plan = NULL;
  const ac_status status = setup_try_plan(s, change_statistics, &plan);
  if (status == AC_ERROR_BUDGET || status == AC_ERROR_ARGUMENT) return STATUS_CONTINUE;
  if (status != AC_OK) return fail_library();
  take(row, ac_plan_get_info(plan));
  ac_plan_free(plan);
  return STATUS_CONTINUE;
}

int plan_norms_price(const setup *s, void (*change)(ac_plan_desc *desc), norms_report *report) {
  const ac_plan_info *info = ac_plan_get_info(s->plan);
  *report = (norms_report){.sections = info->sections,
                           .rows = {{.name = "exact"}, {.name = "micro"}, {.name = "whole"}}};
  if (!info->sections) return STATUS_CONTINUE;
  take(&report->rows[0], info);
  asked.change = change;
  asked.statistics = AC_BATCH_NORM_MICRO;
  asked.micro_batch = info->micro_batch;
  int status = price(s, &report->rows[1]);
  asked.statistics = AC_BATCH_NORM_WHOLE;
  asked.micro_batch = 0;
  if (status == STATUS_CONTINUE) status = price(s, &report->rows[2]);
  return status;
}

void plan_norms_print(const norms_report *r) {
  if (!r->sections) return;
  printf("\n%12s %12s %12s %12s\n", "batch norm", "micro-batch", "total", "update");
  for (int i = 0; i < PRICED_NORMS; i++) {
    const priced_norm *row = &r->rows[i];
    if (row->fits)
      printf("%12s %12" PRId64 " %12s %12s%s\n", row->name, row->micro_batch,
             text_bytes(row->bytes).text, text_time(row->seconds).text, i ? "" : "  this plan");
    else printf("%12s %12s %12s\n", row->name, "", "not possible");
  }
}

json_t *plan_norms_json(const norms_report *r) {
  json_t *list = json_array();
  for (int i = 0; i < PRICED_NORMS; i++) {
    const priced_norm *row = &r->rows[i];
    json_array_append_new(
        list, json_pack("{s:s, s:b, s:I, s:I, s:f}", "batch_norm", row->name, "fits",
                        row->fits ? 1 : 0, "micro_batch", (json_int_t)row->micro_batch,
                        "total_bytes", (json_int_t)row->bytes, "predicted_seconds", row->seconds));
  }
  return list;
}
