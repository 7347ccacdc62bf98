#include "bench/measure.h"

#include "common/message.h"
#include "common/terminal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int bench_measure_roofs(bench_report *report, const bench_wish *wish) {
  for (int d = 0; d < report->device_count; d++) {
    const ac_status status =
        ac_bench_measure_roofs(&report->roofs[d], report->devices[d], &wish->desc);
    if (status != AC_OK) return fail_setup(status);
  }
  bench_print_roofs(report);
  return STATUS_CONTINUE;
}

/* Whether two rates differ by more than both spreads together. */
static bool is_apart(const ac_bench_roofs *a, const ac_bench_roofs *b) {
  double ratio = a->bytes > b->bytes ? a->bytes / b->bytes : b->bytes / a->bytes;
  return ratio > 1 + a->copy_timing.spread + b->copy_timing.spread;
}

int bench_check_roofs(bench_report *report, const bench_wish *wish) {
  const double least = 0.1; /* seconds a row; in less there is hardly a drift that would be found */
  if (wish->desc.seconds > 0 && wish->desc.seconds < least) return STATUS_CONTINUE;
  for (int d = 0; d < report->device_count; d++) {
    const ac_bench_roofs *before = &report->roofs[d];
    ac_bench_roofs after = {0};
    if (ac_bench_measure_copy(&after, report->devices[d], &wish->desc) != AC_OK)
      return fail_library();
    report->copy_at_end[d] = after.bytes;
    report->drifted[d] = is_apart(before, &after);
    if (report->drifted[d])
      printf("\nroofs drifted: %s copies %.1f GB/s now, %.1f at the beginning; shares of the roof "
             "are doubtful\n",
             ac_device_get_info(report->devices[d])->id, after.bytes * 1e-9, before->bytes * 1e-9);
  }
  return STATUS_CONTINUE;
}

/* If a device has no room or no kernel for a row, a message says so and the row is left out there;
 * the other devices go on. */
static bool is_left_out(ac_status status, const ac_device *device, const char *kind,
                        const char *name) {
  if (status != AC_ERROR_MEMORY && status != AC_ERROR_BUDGET && status != AC_ERROR_UNSUPPORTED)
    return false;
  say("left out on %s: %s %s: %s", ac_device_get_info(device)->id, kind, name, bench_error());
  return true;
}

/* ---- lists of ops, one a device -------------------------------------------------------------- */

typedef struct lists {
  ac_bench *bench[BENCH_DEVICES];
  int first[BENCH_DEVICES]; /* entries before are not measured */
} lists;

static ac_status open_lists(lists *l, const bench_report *report, const bench_wish *wish) {
  *l = (lists){0};
  ac_bench_desc desc = wish->desc;
  if (!desc.seconds) desc.seconds = 2;
  desc.seconds /= wish->visits;
  if (wish->visits > 1) desc.rounds = 1; /* visits replace rounds */
  ac_status status = AC_OK;
  for (int d = 0; d < report->device_count && status == AC_OK; d++)
    status = ac_bench_create(&l->bench[d], report->devices[d], &desc);
  return status;
}

static void close_lists(lists *l) {
  for (int d = 0; d < BENCH_DEVICES; d++) ac_bench_free(l->bench[d]);
}

static bool same_op(const ac_bench_op *a, const ac_bench_op *b) {
  return !strcmp(a->op, b->op) && !strcmp(a->shapes, b->shapes) && a->precision == b->precision &&
         a->update == b->update;
}

/* The entry of the same row in another list; -1: there is none. */
static int find_entry(const ac_bench *bench, int first, const ac_bench_op *op) {
  for (int i = first; i < ac_bench_count(bench); i++) {
    ac_bench_op other;
    if (ac_bench_get(bench, i, &other) == AC_OK && same_op(op, &other)) return i;
  }
  return -1;
}

static ac_status measure_entry(bench_report *report, const bench_wish *wish, bench_row *row,
                               const lists *l, int d, int index) {
  bench_result *r = &row->results[d];
  ac_bench_op op;
  ac_status status = ac_bench_get(l->bench[d], index, &op);
  if (status == AC_OK) status = ac_bench_time(l->bench[d], index, &r->visits[r->visited]);
  if (status != AC_OK) return status;
  r->measured = true;
  r->visited++;
  r->flops = op.flops;
  r->bytes = op.bytes;
  r->cached = op.cached;
  r->limit = ac_bench_limit(&report->roofs[d], op.precision, op.flops, op.bytes, &r->bound);
  status = ac_bench_combine(&r->timing, &wish->desc, r->visits, r->visited);
  r->timing.noisy |= r->visited < wish->visits; /* until the last, and if that never comes */
  return status;
}

/* A part of the table. Its heading comes with its first row. */
typedef struct section {
  bench_kind kind;
  const char *title;        /* "": none */
  const bench_model *model; /* the model of these ops; NULL: none */
  bool begun;
} section;

static void print_in_section(const bench_report *report, section *s, const bench_row *row) {
  if (!s->begun) {
    if (*s->title) printf("\n%s:", s->title);
    bench_print_header(report, s->kind);
    s->begun = true;
  }
  bench_print_row(report, row);
}

/* A row and its entries in the devices' lists; -1: none, or none any more. */
typedef struct entries {
  int row, of[BENCH_DEVICES];
} entries;

/* The row of an entry of a device's list, unless a device before it has that row. */
static int add_row(bench_report *report, const bench_wish *wish, const lists *l, const section *s,
                   int device, int index, entries *table, int *count) {
  ac_bench_op op;
  if (ac_bench_get(l->bench[device], index, &op) != AC_OK) return fail_library();
  for (int d = 0; d < device; d++)
    if (find_entry(l->bench[d], l->first[d], &op) >= 0) return STATUS_CONTINUE;
  if (!bench_row_matches(wish->filter, op.op, ac_precision_name(op.precision), op.shapes))
    return STATUS_CONTINUE;
  bench_row *row = bench_row_add(report, s->kind, op.op, op.shapes, op.precision);
  if (!row) return fail("out of memory");
  row->backward = op.backward;
  row->update = op.update;
  row->count = op.count;
  row->model = s->model ? s->model->name : "";
  entries *e = &table[(*count)++];
  e->row = report->count - 1;
  for (int d = 0; d < report->device_count; d++)
    e->of[d] = d < device ? -1 : find_entry(l->bench[d], l->first[d], &op);
  return STATUS_CONTINUE;
}

static bool is_stopped(const bench_wish *wish) {
  return wish->signal && *wish->signal;
}

static void show_visit(const bench_wish *wish, int visit, int row, int rows) {
  char line[80];
  if (!terminal_redraws(STDERR_FILENO)) return;
  snprintf(line, sizeof line, "visit %d of %d: row %d of %d", visit + 1, wish->visits, row + 1,
           rows);
  terminal_draw(0, 0, line);
}

static void clear_visit(void) {
  if (terminal_redraws(STDERR_FILENO)) terminal_erase();
}

static ac_status visit_row(bench_report *report, const bench_wish *wish, const lists *l,
                           entries *e) {
  bench_row *row = &report->rows[e->row];
  for (int d = 0; d < report->device_count; d++) {
    if (e->of[d] < 0) continue;
    ac_status status = measure_entry(report, wish, row, l, d, e->of[d]);
    if (status == AC_OK) continue;
    e->of[d] = -1;
    clear_visit();
    const char *what = row->results[d].visited ? "further visits of" : "the op";
    if (!is_left_out(status, report->devices[d], what, row->name)) return status;
  }
  return AC_OK;
}

/* Results before a failure are also printed. */
static int visit_rows(bench_report *report, const bench_wish *wish, const lists *l, section *s,
                      entries *table, int count) {
  ac_status status = AC_OK;
  int printed = 0;
  for (int visit = 0; visit < wish->visits && status == AC_OK; visit++)
    for (int i = 0; i < count && status == AC_OK && !is_stopped(wish); i++) {
      show_visit(wish, visit, i, count);
      status = visit_row(report, wish, l, &table[i]);
      clear_visit();
      if (visit < wish->visits - 1) continue;
      const bench_row *row = &report->rows[table[i].row];
      if (status == AC_OK || bench_row_measured(row)) print_in_section(report, s, row);
      printed++;
    }
  for (; printed < count; printed++) {
    const bench_row *row = &report->rows[table[printed].row];
    if (bench_row_measured(row)) print_in_section(report, s, row);
  }
  return status == AC_OK ? STATUS_CONTINUE : bench_fail(status);
}

static int measure_lists(bench_report *report, const bench_wish *wish, const lists *l, section s) {
  int most = 1, count = 0, status = STATUS_CONTINUE;
  for (int d = 0; d < report->device_count; d++) most += ac_bench_count(l->bench[d]);
  entries *table = malloc((size_t)most * sizeof *table);
  if (!table) return fail("out of memory");
  for (int d = 0; d < report->device_count; d++)
    for (int i = l->first[d]; i < ac_bench_count(l->bench[d]) && status == STATUS_CONTINUE; i++)
      status = add_row(report, wish, l, &s, d, i, table, &count);
  if (status == STATUS_CONTINUE && !wish->count_only)
    status = visit_rows(report, wish, l, &s, table, count);
  free(table);
  return status;
}

/* ---- products -------------------------------------------------------------------------------- */

static ac_status add_products(const bench_report *report, const bench_wish *wish, lists *l) {
  static const int64_t sizes[] = {256, 512, 1024, 2048};
  int count = wish->size ? 1 : (int)(sizeof sizes / sizeof *sizes);
  for (int d = 0; d < report->device_count; d++)
    for (int p = 0; p < AC_BENCH_PRECISIONS; p++)
      for (int i = 0; i < count; i++) {
        bool asked = p == (int)wish->setting.precision;
        const bool has = report->roofs[d].flops[p] > 0 || wish->count_only; /* roofs come later */
        if (!asked && !(wish->every_precision && has)) continue;
        int64_t n = wish->size ? wish->size : sizes[i];
        ac_status status = ac_bench_add_product(l->bench[d], (ac_precision)p, n, n, n);
        const char *name = ac_precision_name((ac_precision)p);
        if (status != AC_OK && !is_left_out(status, report->devices[d], "products in", name))
          return status;
      }
  return AC_OK;
}

int bench_measure_gemm(bench_report *report, const bench_wish *wish) {
  lists l;
  ac_status made = open_lists(&l, report, wish);
  if (made == AC_OK) made = add_products(report, wish, &l);
  int status = made == AC_OK ? STATUS_CONTINUE : bench_fail(made);
  if (status == STATUS_CONTINUE)
    status = measure_lists(report, wish, &l, (section){.kind = BENCH_GEMM, .title = ""});
  close_lists(&l);
  return status;
}

/* ---- ops ------------------------------------------------------------------------------------- */

/* The ops of a whole micro-batch without recomputation, so that all devices have the same rows. */
static bench_setting ops_setting(const bench_wish *wish, const bench_model *model) {
  bench_setting setting = wish->setting;
  if (!setting.batch) setting.batch = model->batch;
  if (!setting.micro_batch) setting.micro_batch = setting.batch;
  setting.batch = setting.micro_batch;
  setting.memory = 0;
  setting.beyond_device = true;
  if (setting.recompute == AC_RECOMPUTE_AUTO) setting.recompute = AC_RECOMPUTE_NONE;
  return setting;
}

static ac_status add_model(const bench_report *report, const bench_wish *wish,
                           const bench_model *model, lists *l) {
  bench_setting setting = ops_setting(wish, model);
  ac_status status = AC_OK;
  for (int d = 0; d < report->device_count && status == AC_OK; d++) {
    bench_planned planned;
    status = bench_planned_open(&planned, model, &setting, report->devices[d]);
    if (status == AC_OK) status = ac_bench_add_plan(l->bench[d], planned.plan);
    bench_planned_close(&planned);
    if (is_left_out(status, report->devices[d], "the ops of", model->name)) status = AC_OK;
  }
  return status;
}

static int measure_model_ops(bench_report *report, const bench_wish *wish,
                             const bench_model *model) {
  lists l;
  ac_status made = open_lists(&l, report, wish);
  if (made == AC_OK) made = add_model(report, wish, model, &l);
  int status = made == AC_OK ? STATUS_CONTINUE : bench_fail(made);
  if (status == STATUS_CONTINUE) {
    bench_setting setting = ops_setting(wish, model);
    char detail[256], title[400];
    bench_model_detail(detail, sizeof detail, model, &setting);
    snprintf(title, sizeof title,
             "Ops of %s, %s, and how many times a micro-batch or an update runs each", model->name,
             detail);
    status = measure_lists(report, wish, &l,
                           (section){.kind = BENCH_OP, .title = title, .model = model});
  }
  close_lists(&l);
  return status;
}

static bool has_ops(const bench_wish *wish, const bench_model *model) {
  return wish->model ? wish->model == model : model->ops;
}

/* The ops, and functions of elements, that none of the models has. */
static int measure_other_ops(bench_report *report, const bench_wish *wish) {
  lists l;
  ac_status made = open_lists(&l, report, wish);
  for (int m = 0; m < bench_model_count && made == AC_OK; m++)
    if (has_ops(wish, &bench_models[m])) made = add_model(report, wish, &bench_models[m], &l);
  for (int d = 0; d < report->device_count && made == AC_OK; d++) {
    l.first[d] = ac_bench_count(l.bench[d]);
    made = ac_bench_add_others(l.bench[d], wish->setting.precision);
  }
  int status = made == AC_OK ? STATUS_CONTINUE : bench_fail(made);
  if (status == STATUS_CONTINUE)
    status = measure_lists(
        report, wish, &l,
        (section){.kind = BENCH_OP, .title = "Ops that no model above has, at a middling shape"});
  close_lists(&l);
  return status;
}

int bench_measure_ops(bench_report *report, const bench_wish *wish) {
  int status = STATUS_CONTINUE;
  for (int m = 0; m < bench_model_count && status == STATUS_CONTINUE && !is_stopped(wish); m++)
    if (has_ops(wish, &bench_models[m])) status = measure_model_ops(report, wish, &bench_models[m]);
  if (status != STATUS_CONTINUE || is_stopped(wish)) return status;
  return measure_other_ops(report, wish);
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* The work of a window and its update, and the time that the roofs allow if each op reached its own
 * roof. */
static ac_status sum_work(bench_result *r, const ac_bench_roofs *roofs, ac_device *device,
                          const ac_plan *plan) {
  double bound[3] = {0};
  ac_bench *bench;
  ac_status status = ac_bench_create(&bench, device, NULL);
  if (status == AC_OK) status = ac_bench_add_window(bench, plan);
  for (int i = 0; status == AC_OK && i < ac_bench_count(bench); i++) {
    ac_bench_op op;
    ac_bench_bound which;
    status = ac_bench_get(bench, i, &op);
    double count = (double)op.count;
    double limit = ac_bench_limit(roofs, op.precision, op.flops, op.bytes, &which);
    r->flops += count * op.flops;
    r->bytes += count * op.bytes;
    r->limit += count * limit;
    bound[which] += count * limit;
  }
  for (int b = 1; b < 3; b++)
    if (bound[b] > bound[r->bound]) r->bound = (ac_bench_bound)b;
  ac_bench_free(bench);
  return status;
}

static ac_status measure_planned(bench_result *r, const bench_report *report, int d,
                                 const bench_wish *wish, const bench_planned *planned) {
  const ac_plan_info *info = ac_plan_get_info(planned->plan);
  r->step = (bench_step){.micro_batch = info->micro_batch,
                         .accumulation_steps = info->accumulation_steps,
                         .recomputed_ops = info->recomputed_ops,
                         .samples = planned->batch,
                         .planned_bytes = info->bytes.total,
                         .predicted_seconds = info->predicted_seconds};
  ac_status status = sum_work(r, &report->roofs[d], report->devices[d], planned->plan);
  if (status != AC_OK) return status;
  bench_stepper stepper;
  ac_device_reset_peak(report->devices[d]);
  status = bench_stepper_open(&stepper, planned);
  if (status == AC_OK)
    status = ac_bench_measure(&r->timing, &wish->step_desc, bench_stepper_run, &stepper);
  r->step.peak_bytes = ac_device_peak_bytes(report->devices[d]);
  bench_stepper_close(&stepper);
  r->measured = status == AC_OK;
  return status;
}

/* Prints what does not fit into the line. Ideal: two operations for each weight and token forward,
 * four backward (Kaplan et al., arXiv 2001.08361), at the rate of the best product. */
static void print_step(const bench_report *report, int d, const bench_result *r,
                       const bench_planned *planned) {
  const ac_plan_info *info = ac_plan_get_info(planned->plan);
  double median = r->timing.median, rate = report->roofs[d].flops[info->precision];
  printf("  %s: micro-batch %" PRId64 " x %" PRId64 ", %" PRId64 " ops run again, %.1f samples/s",
         ac_device_get_info(report->devices[d])->id, info->micro_batch, info->accumulation_steps,
         info->recomputed_ops, (double)planned->batch / median);
  if (planned->context) {
    double tokens = (double)(planned->batch * planned->context);
    double ideal = 6 * (double)info->parameter_count * tokens / rate;
    printf(", %.0f tokens/s", tokens / median);
    if (rate > 0) printf(", %.2f of ideal 6 x parameters x tokens", median / ideal);
  }
  printf(", %.2f of predicted\n", median / info->predicted_seconds);
  printf("  %s: %" PRIu64 " bytes planned, %" PRIu64 " at peak\n",
         ac_device_get_info(report->devices[d])->id, info->bytes.total, r->step.peak_bytes);
}

static int measure_step(bench_report *report, const bench_wish *wish, const bench_model *model,
                        section *s) {
  char detail[256];
  bench_model_detail(detail, sizeof detail, model, &wish->setting);
  if (!bench_row_matches(wish->filter, model->name, ac_precision_name(wish->setting.precision),
                         detail))
    return STATUS_CONTINUE;
  bench_row *row = bench_row_add(report, BENCH_STEP, model->name, detail, wish->setting.precision);
  if (!row) return fail("out of memory");
  if (wish->count_only) return STATUS_CONTINUE;
  bench_planned planned[BENCH_DEVICES] = {{0}};
  ac_status status = AC_OK;
  for (int d = 0; d < report->device_count && status == AC_OK; d++) {
    status = bench_planned_open(&planned[d], model, &wish->setting, report->devices[d]);
    if (status == AC_OK) status = measure_planned(&row->results[d], report, d, wish, &planned[d]);
    if (is_left_out(status, report->devices[d], "a step of", model->name)) status = AC_OK;
  }
  if (status == AC_OK || bench_row_measured(row)) print_in_section(report, s, row);
  for (int d = 0; d < report->device_count; d++) {
    if (row->results[d].measured) print_step(report, d, &row->results[d], &planned[d]);
    bench_planned_close(&planned[d]);
  }
  fflush(stdout);
  return status == AC_OK ? STATUS_CONTINUE : bench_fail(status);
}

bool bench_has_step(const bench_wish *wish, const bench_model *model) {
  return wish->model ? wish->model == model : model->steps;
}

int bench_measure_steps(bench_report *report, const bench_wish *wish) {
  section s = {.kind = BENCH_STEP,
               .title = "Training steps: forward, backward, update; the roof is the sum of the "
                        "ops' roofs"};
  int status = STATUS_CONTINUE;
  for (int m = 0; m < bench_model_count && status == STATUS_CONTINUE && !is_stopped(wish); m++)
    if (bench_has_step(wish, &bench_models[m]))
      status = measure_step(report, wish, &bench_models[m], &s);
  return status;
}
