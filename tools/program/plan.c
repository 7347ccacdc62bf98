/* `accrue plan`: what a training run would need. Nothing is allocated on the device, so the model
 * may be far larger than the machine. */
#include "program/commands.h"
#include "common/json_text.h"
#include "common/message.h"
#include "program/plan_largest.h"
#include "program/plan_names.h"
#include "program/plan_norms.h"
#include "program/plan_ranks.h"
#include "program/plan_svg.h"
#include "program/plan_table.h"
#include "program/setup.h"
#include "common/text.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

static const char *const policies[] = {"auto", "none", "all"};

static struct {
  bool json, names;
  const char *svg;
} flags;

static void more_flags(options *o) {
  const option rows[] = {
      FLAG("json", OPTION_SWITCH, &flags.json),
      FLAG("names", OPTION_SWITCH, &flags.names),
      FLAG("svg", OPTION_TEXT, &flags.svg),
  };
  OPTIONS_ADD(o, rows);
  plan_ranks_flags(o);
  plan_largest_flags(o);
}

/* How the operands of an op are stored: "f16, f32". */
typedef struct storage_row {
  const char *op;
  char reads[80], writes[48];
} storage_row;

enum { MOST_ROWS = 128 };

typedef struct report {
  const ac_plan *plan;
  ac_plan_desc desc;
  const ac_plan_info *info;
  int64_t peak; /* step */
  ac_plan_step peak_step;
  ac_plan_alternative list[64];
  int count;
  storage_row storage[MOST_ROWS];
  int storage_count;
  ranks_report ranks;
  norms_report norms;
} report;

static ac_status find_peak(report *r) {
  for (int64_t i = 0; i < r->info->steps + r->info->update_steps; i++) {
    ac_plan_step step;
    ac_status status = ac_plan_get_step(r->plan, i, &step);
    if (status != AC_OK) return status;
    if (i && step.live_bytes <= r->peak_step.live_bytes) continue;
    r->peak = i;
    r->peak_step = step;
  }
  return AC_OK;
}

/* Milliseconds below 10 s, so that rows compare; else as people say it. */
static text predicted(double seconds) {
  text t = text_time(seconds);
  if (seconds < 10) snprintf(t.text, sizeof t.text, "%.1f ms", seconds * 1e3);
  return t;
}

static bool is_same(const ac_plan_alternative *a, const ac_plan_alternative *b) {
  return a->micro_batch == b->micro_batch && a->recomputed_ops == b->recomputed_ops &&
         a->gradients == b->gradients && a->total_bytes == b->total_bytes;
}

static void print_alternative(const ac_plan_alternative *a, const char *note) {
  printf("%12" PRId64 " %6" PRId64 " %10s %12" PRId64 " %11s %12s %12s%s\n", a->micro_batch,
         a->accumulation_steps, policies[a->recompute], a->recomputed_ops,
         gradient_way_of(a->gradients)->name, text_bytes(a->total_bytes).text,
         predicted(a->seconds).text, note);
}

/* The plan that is taken comes first, as a row of its own, unless it is one of the others. */
static void print_alternatives(const report *r) {
  static const char mark[] = "  this plan";
  const ac_plan_info *info = r->info;
  const ac_plan_alternative taken = {.micro_batch = info->micro_batch,
                                     .accumulation_steps = info->accumulation_steps,
                                     .recomputed_ops = info->recomputed_ops,
                                     .recompute = r->desc.recompute,
                                     .gradients = info->gradients,
                                     .total_bytes = info->bytes.total,
                                     .seconds = info->predicted_seconds};
  bool listed = false;
  for (int i = 0; i < r->count; i++) listed |= is_same(&taken, &r->list[i]);
  printf("\n%12s %6s %10s %12s %11s %12s %12s\n", "micro-batch", "times", "recompute", "ops again",
         "gradients", "total", "update");
  if (!listed) print_alternative(&taken, mark);
  for (int i = 0; i < r->count; i++) {
    const ac_plan_alternative *a = &r->list[i];
    const bool fits = !info->budget_bytes || a->total_bytes <= info->budget_bytes;
    print_alternative(a, is_same(&taken, a) ? mark : fits ? "" : "  beyond the budget");
  }
}

/* "f16, f16, f32" */
static void write_dtypes(char *text, size_t size, const ac_dtype *list, int count) {
  size_t used = 0;
  text[0] = 0;
  for (int i = 0; i < count && used < size; i++) {
    const char *name = list[i] < AC_DTYPE_COUNT ? ac_dtype_name(list[i]) : "-";
    used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "", name);
  }
}

static void add_storage(report *r, const storage_row *row) {
  for (int i = 0; i < r->storage_count; i++)
    if (!strcmp(r->storage[i].op, row->op) && !strcmp(r->storage[i].reads, row->reads) &&
        !strcmp(r->storage[i].writes, row->writes))
      return;
  if (r->storage_count < MOST_ROWS) r->storage[r->storage_count++] = *row;
}

/* The policy of mixed precision, as it applies to the ops of this plan: each way in which one of
 * them is stored. */
static ac_status find_storage(report *r) {
  if (r->info->precision == AC_PRECISION_F32) return AC_OK;
  for (int64_t i = 0; i < r->info->steps + r->info->update_steps; i++) {
    ac_plan_step step;
    ac_status status = ac_plan_get_step(r->plan, i, &step);
    if (status != AC_OK) return status;
    storage_row row = {.op = step.op};
    write_dtypes(row.reads, sizeof row.reads, step.input, step.inputs);
    write_dtypes(row.writes, sizeof row.writes, step.output, step.outputs);
    add_storage(r, &row);
  }
  return AC_OK;
}

static void print_storage(const report *r) {
  if (r->storage_count) printf("\n%-32s %-32s %s\n", "op", "reads", "writes");
  for (int i = 0; i < r->storage_count; i++)
    printf("%-32s %-32s %s\n", r->storage[i].op, r->storage[i].reads, r->storage[i].writes);
}

static void print_text(const report *r, const ac_device_info *device, uint64_t picture_bytes) {
  char lines[PLAN_TABLE_BYTES];
  printf("%s", plan_table_text(lines, sizeof lines, device, r->info, picture_bytes));
  const char *scope = r->peak_step.scope;
  const bool twice = gradient_way_of(r->info->gradients)->passes > 1,
             later = r->peak >= r->info->steps;
  const char *when = r->peak_step.backward ? "backward" : later && !twice ? "update" : "forward";
  printf("%-12s step %" PRId64 " of %" PRId64 ": %s%s%s%s, %s\n", "peak", r->peak + 1,
         r->info->steps + (twice || later ? r->info->update_steps : 0), r->peak_step.op,
         *scope ? " (" : "", scope, *scope ? ")" : "", when);
  printf("%-12s %" PRId64 " ops run again\n", "recompute", r->info->recomputed_ops);
  if (r->info->fused_ops)
    printf("%-12s %" PRId64 " ops are computed with those that read them: %s a micro-batch are not "
           "stored\n",
           "fused", r->info->fused_ops, text_bytes(r->info->fused_bytes).text);
  printf("%-12s %s an update, predicted\n", "time", predicted(r->info->predicted_seconds).text);
  if (device->memory_bytes && r->info->bytes.total > device->memory_bytes)
    printf("%-12s this is more than the device has, %s\n", "beware",
           text_bytes(device->memory_bytes).text);
  plan_norms_print(&r->norms);
  plan_ranks_print(&r->ranks);
  print_storage(r);
  print_alternatives(r);
}

static json_t *bytes_object(const ac_plan_bytes *b) {
  return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "parameters", (json_int_t)b->parameters,
                   "gradients", (json_int_t)b->gradients, "optimizer", (json_int_t)b->optimizer,
                   "activations", (json_int_t)b->activations, "workspace", (json_int_t)b->workspace,
                   "io", (json_int_t)b->io, "total", (json_int_t)b->total);
}

static json_t *storage_array(const report *r) {
  json_t *list = json_array();
  for (int i = 0; i < r->storage_count; i++) {
    const storage_row *row = &r->storage[i];
    json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "op", row->op, "reads", row->reads,
                                          "writes", row->writes));
  }
  return list;
}

static int print_json(const report *r, const setup *s) {
  const ac_device_info *device = ac_device_get_info(s->device);
  const ac_plan_info *i = r->info;
  json_t *list = json_array();
  for (int k = 0; k < r->count; k++) {
    const ac_plan_alternative *a = &r->list[k];
    json_array_append_new(
        list,
        json_pack("{s:I, s:I, s:s, s:I, s:s, s:I, s:f}", "micro_batch", (json_int_t)a->micro_batch,
                  "accumulation_steps", (json_int_t)a->accumulation_steps, "recompute",
                  policies[a->recompute], "recomputed_ops", (json_int_t)a->recomputed_ops,
                  "gradients", gradient_way_of(a->gradients)->name, "total_bytes",
                  (json_int_t)a->total_bytes, "predicted_seconds", a->seconds));
  }
  json_t *object = json_pack(
      "{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:I, s:o, s:I, s:I, s:b, s:I, s:I, "
      "s:I, "
      "s:f, "
      "s:{s:s, s:s, s:I, s:b}, s:o, s:o, s:I, s:I, s:I, s:I}",
      "device", device->id, "precision", ac_precision_name(i->precision), "parameter_count",
      (json_int_t)i->parameter_count, "frozen_count", (json_int_t)i->frozen_count,
      "effective_batch", (json_int_t)i->batch, "micro_batch", (json_int_t)i->micro_batch,
      "accumulation_steps", (json_int_t)i->accumulation_steps, "recomputed_ops",
      (json_int_t)i->recomputed_ops, "fused_ops", (json_int_t)i->fused_ops, "fused_bytes",
      (json_int_t)i->fused_bytes, "gradients", gradient_way_of(i->gradients)->name, "budget_bytes",
      (json_int_t)i->budget_bytes, "planned_bytes", bytes_object(&i->bytes), "live_bytes",
      (json_int_t)i->live_bytes, "working_bytes", (json_int_t)i->working_bytes, "rounds_anew",
      i->rounds_anew ? 1 : 0, "host_bytes", (json_int_t)i->host_bytes, "read_ahead_bytes",
      (json_int_t)i->read_ahead_bytes, "library_bytes", (json_int_t)i->library_bytes,
      "predicted_seconds", i->predicted_seconds, "peak", "op", r->peak_step.op, "scope",
      r->peak_step.scope, "step", (json_int_t)(r->peak + 1), "backward",
      r->peak_step.backward ? 1 : 0, "alternatives", list, "storage", storage_array(r), "ranks",
      (json_int_t)i->ranks, "rank", (json_int_t)i->rank, "share", (json_int_t)i->share,
      "transfer_bytes", (json_int_t)i->transfer_bytes);
  const uint64_t picture_bytes = data_picture_bytes(&s->data);
  if (picture_bytes && object)
    json_object_set_new(object, "picture_bytes", json_integer((json_int_t)picture_bytes));
  if (object) json_object_set_new(object, "sections", json_integer((json_int_t)i->sections));
  if (r->norms.sections && object)
    json_object_set_new(object, "batch_norms", plan_norms_json(&r->norms));
  if (r->ranks.count && object) json_object_set_new(object, "exchange", plan_ranks_json(&r->ranks));
  if (flags.names && object) json_object_set_new(object, "parameters", plan_names_json(s));
  bool good = object && json_text_put(object, JSON_INDENT(2), stdout);
  json_decref(object);
  return good ? STATUS_DONE : fail("cannot write the plan");
}

static int make_report(report *r, const setup *s) {
  r->plan = s->plan;
  r->desc = setup_plan_desc(s);
  r->info = ac_plan_get_info(s->plan);
  ac_status status = find_peak(r);
  if (status == AC_OK) status = find_storage(r);
  int capacity = (int)(sizeof r->list / sizeof *r->list);
  if (status == AC_OK) status = ac_plan_alternatives(r->plan, r->list, capacity, &r->count);
  if (r->count > capacity) r->count = capacity;
  return status == AC_OK ? STATUS_CONTINUE : fail_library();
}

static void plan_beyond_device(ac_plan_desc *desc) {
  desc->beyond_device = true;
}

int plan_main(int argc, char **argv) {
  const help_form help = setup_wants_help(argc, argv);
  if (help) return setup_help("plan", help);
  setup s;
  report r = {0};
  int status = plan_ranks_measure(argc, argv);
  if (status != STATUS_CONTINUE) return status;
  status = setup_open_model(&s, "plan", argc, argv, more_flags);
  if (status == STATUS_CONTINUE) plan_ranks_settle(&s);
  if (status == STATUS_CONTINUE && plan_largest_is_asked(&s.options))
    status = plan_largest(&s, plan_beyond_device, flags.json);
  if (status == STATUS_CONTINUE) status = setup_plan(&s, plan_beyond_device, &s.plan);
  if (status == STATUS_CONTINUE) status = make_report(&r, &s);
  if (status == STATUS_CONTINUE && !flags.names)
    status = plan_ranks_price(&s, plan_beyond_device, &r.ranks);
  if (status == STATUS_CONTINUE && !flags.names)
    status = plan_norms_price(&s, plan_beyond_device, &r.norms);
  if (status == STATUS_CONTINUE && flags.svg) status = plan_svg(r.plan, flags.svg);
  if (status == STATUS_CONTINUE) {
    if (flags.json) status = print_json(&r, &s);
    else if (flags.names) status = plan_names_print(&s);
    else {
      print_text(&r, ac_device_get_info(s.device), data_picture_bytes(&s.data));
      status = STATUS_DONE;
    }
  }
  setup_close(&s);
  return status;
}
