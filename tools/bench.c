/* `accrue bench`: how fast a device multiplies, and how near to that a whole training step comes.
 *
 * The rate of multiplication is taken through the library: a chain of square products, the median
 * of several runs. A step is one window of one micro-batch: forward, backward, update. Its ideal
 * time is 6 x parameters x tokens (two operations for each weight forward, four backward; Kaplan et
 * al., arXiv 2001.08361) at that rate. Both are measured in one run, alternating, because machines
 * are shared and their speed drifts. */
#include "commands.h"
#include "gpt.h"
#include "message.h"
#include "options.h"
#include "progress.h"
#include "text.h"

#include <accrue/accrue.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHAIN = 4, MOST_REPEATS = 1000 };

typedef struct bench {
  const char *device_name;
  int64_t threads, repeats, size;
  int model; /* index into models */
  int64_t batch, context;
  uint64_t memory;
  int recompute; /* ac_recompute */
  ac_device *device;
  uint64_t peak; /* bytes, while steps ran */
  double times[MOST_REPEATS];
} bench;

/* ---- statistics ------------------------------------------------------------------------------ */

static int by_value(const void *a, const void *b) {
  const double *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

typedef struct timing {
  double median, least, most;
} timing;

static timing summarise(double *times, int64_t count) {
  qsort(times, (size_t)count, sizeof *times, by_value);
  return (timing){times[count / 2], times[0], times[count - 1]};
}

/* ---- products -------------------------------------------------------------------------------- */

typedef struct product {
  int64_t size;
  ac_plan *plan;
  ac_session *session;
  float *x;
} product;

static ac_status product_open(product *p, ac_device *device, int64_t size) {
  const int64_t rows[] = {AC_BATCH, size}, square[] = {size, size};
  const ac_parameter_desc desc = {.init = {AC_INIT_KAIMING_NORMAL, 1, 0, false}};
  ac_graph *graph;
  *p = (product){.size = size};
  if (!(p->x = malloc((size_t)(size * size) * sizeof *p->x))) return AC_ERROR_MEMORY;
  for (int64_t i = 0; i < size * size; i++) p->x[i] = (float)(i % 251) / 251 - 0.5f;
  ac_status status = ac_graph_create(&graph);
  if (status != AC_OK) return status;
  ac_tensor *y = ac_input(graph, "x", AC_F32, 2, rows);
  ac_tensor *weight = ac_parameter(graph, "w", 2, square, &desc);
  for (int i = 0; i < CHAIN; i++) y = ac_linear(y, weight, NULL, AC_IN_OUT);
  ac_graph_set_output(graph, "y", y);
  ac_plan_desc plan = {.purpose = AC_PREDICT, .batch = size, .micro_batch = size};
  status = ac_plan_create(&p->plan, graph, device, &plan);
  ac_graph_free(graph);
  if (status == AC_OK) status = ac_session_create(&p->session, p->plan, 1);
  return status;
}

static void product_close(product *p) {
  ac_session_free(p->session);
  ac_plan_free(p->plan);
  free(p->x);
}

/* Reading one element of the result waits for all of it. */
static ac_status product_run(product *p, double *seconds) {
  ac_feed feed = {"x", p->x};
  float element;
  double begin = progress_clock();
  ac_status status = ac_session_run(p->session, p->size, &feed, 1);
  if (status == AC_OK) status = ac_session_output(p->session, "y", 0, 1, &element);
  *seconds = progress_clock() - begin;
  return status;
}

static double product_rate(const product *p, double seconds) {
  double n = (double)p->size;
  return CHAIN * 2 * n * n * n / seconds;
}

static int bench_gemm(bench *b) {
  static const int64_t sizes[] = {256, 512, 1024, 2048};
  printf("%8s %12s %12s\n", "size", "GFLOP/s", "best");
  int count = b->size ? 1 : (int)(sizeof sizes / sizeof *sizes);
  for (int i = 0; i < count; i++) {
    product p;
    double first;
    int64_t size = b->size ? b->size : sizes[i];
    ac_status status = product_open(&p, b->device, size);
    if (status == AC_OK) status = product_run(&p, &first);
    for (int64_t r = 0; r < b->repeats && status == AC_OK; r++)
      status = product_run(&p, &b->times[r]);
    if (status == AC_OK) {
      timing t = summarise(b->times, b->repeats);
      printf("%8" PRId64 " %12.1f %12.1f\n", size, product_rate(&p, t.median) * 1e-9,
             product_rate(&p, t.least) * 1e-9);
    }
    product_close(&p);
    if (status != AC_OK) return fail_library();
  }
  return STATUS_DONE;
}

/* ---- training steps -------------------------------------------------------------------------- */

static const struct {
  const char *name;
  gpt_config config;
  int64_t batch;
} models[] = {
    {"gpt2-124m", {12, 12, 768, 64, 50257, 0}, 4},
    {"gpt-small", {4, 4, 128, 64, 256, 0}, 12},
};

typedef struct stepper {
  ac_plan *plan;
  ac_trainer *trainer;
  int32_t *tokens;
  int64_t batch;
} stepper;

static ac_status stepper_open(stepper *s, const bench *b, const gpt_config *config, int64_t batch) {
  *s = (stepper){.batch = batch};
  int64_t count = batch * config->context + 1;
  if (!(s->tokens = malloc((size_t)count * sizeof *s->tokens))) return AC_ERROR_MEMORY;
  for (int64_t i = 0; i < count; i++)
    s->tokens[i] = (int32_t)((uint64_t)i * 2654435761u % (uint64_t)config->vocab);
  ac_graph *graph;
  ac_status status = ac_graph_create(&graph);
  if (status != AC_OK) return status;
  gpt_build(graph, config, true);
  ac_plan_desc plan = {
      .batch = batch, .memory = b->memory, .recompute = (ac_recompute)b->recompute};
  status = ac_plan_create(&s->plan, graph, b->device, &plan);
  ac_graph_free(graph);
  ac_trainer_desc desc = {.schedule = {.lr = 1e-4}, .optimizer = {.clip = 1}};
  if (status == AC_OK) status = ac_trainer_create(&s->trainer, s->plan, &desc);
  return status;
}

static void stepper_close(stepper *s) {
  ac_trainer_free(s->trainer);
  ac_plan_free(s->plan);
  free(s->tokens);
}

static ac_status stepper_run(stepper *s, double *seconds) {
  const ac_feed feeds[] = {{"tokens", s->tokens}, {"targets", s->tokens + 1}};
  double begin = progress_clock();
  ac_status status = ac_trainer_accumulate(s->trainer, s->batch, feeds, 2);
  if (status == AC_OK) status = ac_trainer_update(s->trainer, NULL);
  *seconds = progress_clock() - begin;
  return status;
}

static void print_step(const bench *b, const stepper *s, const gpt_config *config, timing step,
                       double rate) {
  const ac_plan_info *info = ac_plan_get_info(s->plan);
  double tokens = (double)(s->batch * config->context);
  double ideal = 6 * (double)info->parameter_count * tokens / rate;
  printf("model         %s, %s parameters, batch %" PRId64 ", context %" PRId64 "\n",
         models[b->model].name, text_count(info->parameter_count).text, s->batch, config->context);
  printf("step          %.2f ms median of %" PRId64 " (%.2f to %.2f)\n", step.median * 1e3,
         b->repeats, step.least * 1e3, step.most * 1e3);
  if (info->accumulation_steps > 1 || info->recomputed_ops)
    printf("plan          %" PRId64 " x micro-batch %" PRId64 ", %" PRId64 " ops run again\n",
           info->accumulation_steps, info->micro_batch, info->recomputed_ops);
  printf("predicted     %.2f ms, measured %.2f times that\n", info->predicted_seconds * 1e3,
         step.median / info->predicted_seconds);
  printf("tokens        %.0f /s\n", tokens / step.median);
  printf("work          %.2f GFLOP by the op table, %.1f GFLOP/s\n", info->flops * 1e-9,
         info->flops / step.median * 1e-9);
  printf("best product  %.1f GFLOP/s\n", rate * 1e-9);
  printf("ideal step    %.2f ms = 6 x parameters x tokens / best product\n", ideal * 1e3);
  printf("step / ideal  %.2f\n", step.median / ideal);
  printf("memory        %s planned, %s at peak\n", text_bytes(info->bytes.total).text,
         text_bytes(b->peak).text);
}

/* Products run before the trainer exists, between its steps they would need memory beside its own;
 * so they frame the steps: before and after, the best of all of them counts. */
static ac_status best_product(bench *b, double *best) {
  product p;
  double seconds;
  ac_status status = product_open(&p, b->device, 2048);
  for (int r = 0; r < 5 && status == AC_OK; r++) {
    status = product_run(&p, &seconds);
    if (r && status == AC_OK && product_rate(&p, seconds) > *best)
      *best = product_rate(&p, seconds);
  }
  product_close(&p);
  return status;
}

static ac_status time_steps(bench *b, const gpt_config *config, int64_t batch, double *rate) {
  stepper s;
  double first;
  ac_status status = best_product(b, rate);
  if (status != AC_OK) return status;
  ac_device_reset_peak(b->device);
  status = stepper_open(&s, b, config, batch);
  for (int r = 0; r < 2 && status == AC_OK; r++) status = stepper_run(&s, &first);
  for (int64_t r = 0; r < b->repeats && status == AC_OK; r++)
    status = stepper_run(&s, &b->times[r]);
  if (status == AC_OK) {
    timing t = summarise(b->times, b->repeats);
    b->peak = ac_device_peak_bytes(b->device);
    status = best_product(b, rate);
    if (status == AC_OK) print_step(b, &s, config, t, *rate);
  }
  stepper_close(&s);
  return status;
}

static int bench_step(bench *b) {
  gpt_config config = models[b->model].config;
  double rate = 0;
  if (b->context) config.context = b->context;
  int64_t batch = b->batch ? b->batch : models[b->model].batch;
  return time_steps(b, &config, batch, &rate) == AC_OK ? STATUS_DONE : fail_library();
}

/* ---- resident memory ------------------------------------------------------------------------- */

/* A line of Linux's account of this process in bytes, "VmRSS" or "VmHWM"; 0 elsewhere. */
static uint64_t process_bytes(const char *name) {
  char line[256];
  unsigned long long kibibytes = 0;
  FILE *file = fopen("/proc/self/status", "r");
  while (file && fgets(line, sizeof line, file))
    if (!strncmp(line, name, strlen(name))) sscanf(line + strlen(name), ": %llu", &kibibytes);
  if (file) fclose(file);
  return (uint64_t)kibibytes << 10;
}

/* Lets VmHWM start again from what is resident now. */
static void reset_high_water(void) {
  FILE *file = fopen("/proc/self/clear_refs", "w");
  if (!file) return;
  fputs("5", file);
  fclose(file);
}

static ac_status train_and_watch(bench *b, const gpt_config *config, int64_t batch, uint64_t idle) {
  stepper s;
  double seconds;
  ac_status status = stepper_open(&s, b, config, batch);
  for (int64_t r = 0; r < b->repeats && status == AC_OK; r++) status = stepper_run(&s, &seconds);
  if (status == AC_OK) {
    const ac_plan_info *info = ac_plan_get_info(s.plan);
    uint64_t peak = process_bytes("VmHWM"), planned = info->bytes.total;
    printf("model         %s, batch %" PRId64 " as %" PRId64 " x %" PRId64 ", %" PRId64
           " ops run again\n",
           models[b->model].name, batch, info->accumulation_steps, info->micro_batch,
           info->recomputed_ops);
    printf("idle          %s resident after listing the devices\n", text_bytes(idle).text);
    printf("training      %s resident at most, %s more\n", text_bytes(peak).text,
           text_bytes(peak - idle).text);
    printf("planned       %s", text_bytes(planned).text);
    printf(" and %s for libraries", text_bytes(info->library_bytes).text);
    if (info->budget_bytes) printf(", budget %s", text_bytes(info->budget_bytes).text);
    printf("\nresident / planned  %.4f\n",
           (double)(peak - idle) / (double)(planned + info->library_bytes));
  }
  stepper_close(&s);
  return status;
}

static int bench_memory(bench *b) {
  ac_device_info list[16];
  int count;
  if (ac_device_list(list, 16, &count) != AC_OK) return fail_library();
  reset_high_water();
  uint64_t idle = process_bytes("VmRSS");
  if (!idle) return fail("this system does not tell how much memory a process has");
  ac_device_desc desc = {.name = b->device_name, .threads = (int)b->threads};
  if (ac_device_open(&b->device, &desc) != AC_OK) return fail_library();
  gpt_config config = models[b->model].config;
  if (b->context) config.context = b->context;
  ac_status status =
      train_and_watch(b, &config, b->batch ? b->batch : models[b->model].batch, idle);
  ac_device_close(b->device);
  return status == AC_OK ? STATUS_DONE : fail_library();
}

/* ---- the command ----------------------------------------------------------------------------- */

typedef enum what { GEMM, STEP, MEMORY, WHATS } what;
static const struct {
  const char *name, *command, *summary;
} whats[WHATS] = {
    {"gemm", "bench gemm", "Times products of square f32 matrices through the library."},
    {"step", "bench step", "Times training steps and compares them with the ideal."},
    {"memory", "bench memory", "Compares a training process's resident memory with its plan."},
};

static int print_help(void) {
  printf("accrue bench WHAT [flags]\n\nMeasures a device.\n\n");
  for (int i = 0; i < WHATS; i++) printf("  %-10s %s\n", whats[i].name, whats[i].summary);
  printf("\naccrue bench WHAT --help lists the flags.\n");
  return STATUS_DONE;
}

static int parse(bench *b, what w, int argc, char **argv) {
  options o = {.command = whats[w].command, .summary = whats[w].summary};
  const option common[] = {
      {"device", "NAME", OPTION_TEXT, &b->device_name, .help = "as for accrue train"},
      {"threads", "N", OPTION_INTEGER, &b->threads, .help = "of the CPU", .fallback = "all",
       .least = 1, .most = 1024},
      {"repeat", "N", OPTION_INTEGER, &b->repeats, .help = "times to measure", .least = 1,
       .most = MOST_REPEATS},
  };
  const option of_gemm[] = {
      {"size", "N", OPTION_INTEGER, &b->size, .help = "rows and columns",
       .fallback = "256, 512, 1024 and 2048", .least = 1, .most = 16384},
  };
  const option of_step[] = {
      {"model", "gpt2-124m|gpt-small", OPTION_CHOICE, &b->model, .help = "what to train"},
      {"batch", "N", OPTION_INTEGER, &b->batch, .help = "samples a window",
       .fallback = "4 or 12, by model", .least = 1, .most = 1 << 20},
      {"context", "N", OPTION_INTEGER, &b->context, .help = "tokens a sample", .fallback = "64",
       .least = 1, .most = 1 << 20},
      {"memory", "SIZE", OPTION_SIZE, &b->memory, .help = "budget", .fallback = "what it has"},
      {"recompute", "auto|none|all", OPTION_CHOICE, &b->recompute,
       .help = "activations in the backward pass"},
  };
  if (w == GEMM) OPTIONS_ADD(&o, "What", of_gemm);
  else OPTIONS_ADD(&o, "What", of_step);
  OPTIONS_ADD(&o, "Run", common);
  return options_parse(&o, argc, argv);
}

int bench_main(int argc, char **argv) {
  if (argc < 1) return fail_usage("what to measure is missing; accrue bench --help lists it");
  if (!strcmp(argv[0], "--help") || !strcmp(argv[0], "-h")) return print_help();
  int w = 0;
  while (w < WHATS && strcmp(argv[0], whats[w].name) != 0) w++;
  if (w == WHATS)
    return fail_usage("unknown measurement %s; accrue bench --help lists them", argv[0]);
  static bench b = {.device_name = "auto", .repeats = 10};
  int status = parse(&b, (what)w, argc - 1, argv + 1);
  if (status != STATUS_CONTINUE) return status;
  if (w == MEMORY) return bench_memory(&b);
  ac_device_desc desc = {.name = b.device_name, .threads = (int)b.threads};
  if (ac_device_open(&b.device, &desc) != AC_OK) return fail_library();
  printf("device        %s: %s\n", ac_device_get_info(b.device)->name,
         ac_device_get_info(b.device)->driver);
  status = w == STEP ? bench_step(&b) : bench_gemm(&b);
  ac_device_close(b.device);
  return status;
}
