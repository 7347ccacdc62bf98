/* Reading a plan: where the bytes go, which step needs the most, what other choices would cost, and
 * what would help if a budget is too small. The device "dry" computes nothing, so plans can be made
 * here for a model that this machine could not train. */
#include <accrue/accrue.h>
#include <stdio.h>

enum { WIDTH = 4096, LAYERS = 8, BATCH = 256 };

static ac_status describe(ac_graph *graph) {
  const ac_parameter_desc he = {.init = {.kind = AC_INIT_KAIMING_NORMAL}};
  ac_tensor *x = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, WIDTH)),
            *labels = ac_input(graph, "labels", AC_I32, AC_SHAPE(AC_BATCH));
  for (int i = 0; i < LAYERS; i++) {
    char name[32];
    snprintf(name, sizeof name, "layer.%d", i);
    ac_graph_scope(graph, name); /* steps of the plan say this name */
    ac_tensor *w = ac_parameter(graph, name, AC_SHAPE(WIDTH, WIDTH), &he);
    x = ac_relu(ac_linear(x, w, NULL, AC_OUT_IN));
  }
  ac_graph_scope(graph, NULL);
  ac_graph_set_loss(graph, ac_cross_entropy(x, labels, NULL, NULL));
  return ac_graph_status(graph);
}

static double mib(uint64_t bytes) {
  return (double)bytes / (1 << 20);
}

static void print_devices(void) {
  ac_device_info list[8], found;
  int count = 0;
  if (ac_device_list(list, 8, &count) == AC_OK)
    for (int i = 0; i < count && i < 8; i++)
      printf("device %s: %s, %.0f MiB\n", list[i].id, list[i].name, mib(list[i].memory_bytes));
  if (ac_device_find(&found, "cpu") == AC_OK) printf("\"cpu\" is %s\n", found.name);
}

static void print_bytes(const ac_plan_info *info) {
  const ac_plan_bytes *b = &info->bytes;
  printf("%lld micro-batches of %lld; MiB: parameters %.0f, gradients %.0f, optimizer %.0f, "
         "activations %.0f, workspace %.0f, io %.0f, total %.0f\n",
         (long long)info->accumulation_steps, (long long)info->micro_batch, mib(b->parameters),
         mib(b->gradients), mib(b->optimizer), mib(b->activations), mib(b->workspace), mib(b->io),
         mib(b->total));
}

/* The step while which most bytes are alive. */
static ac_status print_peak(const ac_plan *plan, const ac_plan_info *info) {
  ac_plan_step step, most = {.live_bytes = 0};
  for (int64_t i = 0; i < info->steps + info->update_steps; i++) {
    ac_status status = ac_plan_get_step(plan, i, &step);
    if (status != AC_OK) return status;
    if (step.live_bytes > most.live_bytes) most = step;
  }
  printf("most is alive in %s (%s, %s): %.0f MiB\n", most.op, most.scope,
         most.backward ? "backward" : "forward", mib(most.live_bytes));
  return AC_OK;
}

static ac_status print_alternatives(const ac_plan *plan, int *count) {
  ac_plan_alternative list[64];
  ac_status status = ac_plan_alternatives(plan, list, 64, count);
  for (int i = 0; status == AC_OK && i < *count && i < 64; i += 6)
    printf("  micro-batch %lld, %lld ops run again: %.0f MiB\n", (long long)list[i].micro_batch,
           (long long)list[i].recomputed_ops, mib(list[i].total_bytes));
  return status;
}

static void print_reliefs(unsigned reliefs) {
  static const struct {
    unsigned bit;
    const char *text;
  } names[] = {{AC_RELIEF_HOST_MEMORY, "optimizer state in host memory"},
               {AC_RELIEF_GRADIENTS_FOLDED, "folded gradients"},
               {AC_RELIEF_PRECISION_F16, "f16"},
               {AC_RELIEF_STATE_8BIT, "optimizer state in 8 bits"},
               {AC_RELIEF_WEIGHTS_BF16, "weights in bf16"}};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (reliefs & names[i].bit) printf(" %s,", names[i].text);
}

/* A budget that is too small: what each offer would need. */
static ac_status print_offers(const ac_graph *graph, ac_device *device, ac_plan_desc policy,
                              int *count) {
  ac_plan_offer list[16];
  ac_plan *plan = NULL;
  policy.memory = 1 << 30;
  if (ac_plan_create(&plan, graph, device, &policy) != AC_ERROR_BUDGET) {
    ac_plan_free(plan);
    return AC_ERROR_INTERNAL;
  }
  printf("1 GiB: %s\n", ac_last_error());
  ac_status status = ac_plan_offers(graph, device, &policy, list, 16, count);
  for (int i = 0; status == AC_OK && i < *count && i < 16; i++) {
    printf("  with");
    print_reliefs(list[i].reliefs);
    printf(" %.0f MiB%s\n", mib(list[i].bytes),
           list[i].bytes <= policy.memory ? ": fits" : " are needed");
  }
  return status;
}

int main(void) {
  const ac_plan_desc policy = {.batch = BATCH, .whole_windows = true, .beyond_device = true};
  ac_device *device = NULL;
  ac_graph *graph = NULL;
  ac_plan *plan = NULL;
  int alternatives = 0, offers = 0;
  print_devices();
  ac_status status = ac_graph_create(&graph);
  if (status == AC_OK) status = describe(graph);
  if (status == AC_OK) status = ac_device_open(&device, &(ac_device_desc){.name = "dry"});
  if (status == AC_OK) status = ac_plan_create(&plan, graph, device, &policy);
  if (status == AC_OK) print_bytes(ac_plan_get_info(plan));
  if (status == AC_OK) status = print_peak(plan, ac_plan_get_info(plan));
  if (status == AC_OK) status = print_alternatives(plan, &alternatives);
  if (status == AC_OK) status = print_offers(graph, device, policy, &offers);
  if (status != AC_OK) fprintf(stderr, "read_plan: %s\n", ac_last_error());
  const uint64_t total = plan ? ac_plan_get_info(plan)->bytes.total : 0;
  ac_plan_free(plan);
  ac_device_close(device);
  ac_graph_free(graph);
  /* Weights, and what AdamW keeps of them, are 12 bytes for each weight. */
  return status == AC_OK && alternatives > 2 && offers > 0 && total > 12ull * WIDTH * WIDTH * LAYERS
             ? 0
             : 1;
}
