#include "program/plan_table.h"

#include "common/storage.h"
#include "common/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

typedef struct page {
  char *text;
  size_t size, used;
} page;

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static void
put(page *p, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(p->text + p->used, p->size - p->used, format, arguments);
  va_end(arguments);
  if (length > 0) p->used += (size_t)length;
  if (p->used >= p->size) p->used = p->size - 1;
}

/* In 16 bits each class says how it is stored: not all of them shrink. */
static void put_memory(page *p, const ac_plan_info *plan, uint64_t picture_bytes) {
  char parameters[160], blocks[64] = "";
  if (plan->blocks_bytes)
    snprintf(blocks, sizeof blocks, ", %s in blocks", text_bytes(plan->blocks_bytes).text);
  if (plan->precision == AC_PRECISION_F32) snprintf(parameters, sizeof parameters, "%s", blocks);
  else if (plan->weights == AC_WEIGHTS_BF16)
    snprintf(parameters, sizeof parameters, "%s, weights in bf16, the rest in f32", blocks);
  else if (plan->rounds_anew)
    snprintf(parameters, sizeof parameters, "%s, %sf32; rounded to %s for each op that reads them",
             blocks, *blocks ? "the rest " : "", ac_precision_name(plan->precision));
  else
    snprintf(parameters, sizeof parameters, "%s, %sf32; %s%s working copies in %s", blocks,
             *blocks ? "the rest " : "", *blocks ? "" : "of these ",
             text_bytes(plan->working_bytes).text, ac_precision_name(plan->precision));
  const ac_plan_bytes *bytes = &plan->bytes;
  const struct {
    const char *name;
    uint64_t bytes;
  } classes[] = {{"parameters", bytes->parameters},
                 {"gradients", bytes->gradients},
                 {"optimizer", bytes->optimizer},
                 {"activations", bytes->activations},
                 {"workspace", bytes->workspace},
                 {"input and output", bytes->io},
                 {"total", bytes->total}};
  const char *kept = plan->optimizer_state == AC_STATE_8BIT ? ", in 8 bits or f32" : ", f32";
  const char *gradients =
      plan->gradient_storage == AC_GRADIENT_BF16 ? ", large ones in bf16" : ", f32";
  const char *storage[] = {parameters, gradients, kept, ", 16 bits but for statistics",
                           ", f32",    "",        ""};
  for (int i = 0; i < 7; i++)
    put(p, "%-12s %-18s %12s%s%s%s\n", i ? "" : "memory", classes[i].name,
        text_bytes(classes[i].bytes).text, i == 6 && plan->budget_bytes ? " of " : "",
        i == 6 && plan->budget_bytes ? text_bytes(plan->budget_bytes).text : "",
        i && plan->precision == AC_PRECISION_F32 ? "" : storage[i]);
  if (plan->host_bytes)
    put(p, "%-12s %-18s %12s, on the host, of optimizer state\n", "", "besides",
        text_bytes(plan->host_bytes).text);
  if (plan->transfer_bytes)
    put(p, "%-12s %-18s %12s, on the host, for transfers between ranks\n", "", "besides",
        text_bytes(plan->transfer_bytes).text);
  if (plan->read_ahead_bytes)
    put(p, "%-12s %-18s %12s, on the host, for batches read ahead\n", "", "besides",
        text_bytes(plan->read_ahead_bytes).text);
  if (picture_bytes)
    put(p, "%-12s %-18s %12s at most, on the host, to decode pictures\n", "", "besides",
        text_bytes(picture_bytes).text);
  if (plan->library_bytes)
    put(p, "%-12s %-18s %12s, held by libraries outside the plan\n", "", "besides",
        text_bytes(plan->library_bytes).text);
}

const char *plan_table_text(char *text, size_t size, const ac_device_info *device,
                            const ac_plan_info *plan, uint64_t picture_bytes) {
  page p = {text, size, 0};
  const gradient_way *way = gradient_way_of(plan->gradients);
  put(&p, "device       %s: %s (%s)\n", device->id, device->name, device->driver);
  put(&p, "model        %s parameters", text_count(plan->parameter_count).text);
  if (plan->frozen_count) put(&p, ", and %s that are frozen", text_count(plan->frozen_count).text);
  put(&p, "\n");
  if (plan->ranks > 1)
    put(&p, "ranks        rank %d of %d, which takes at most %" PRId64 " of %" PRId64 " samples\n",
        plan->rank, plan->ranks, plan->share, plan->batch);
  if (plan->accumulation_steps == 1)
    put(&p, "batch        %" PRId64 " sample%s at once\n", plan->share,
        plan->share == 1 ? "" : "s");
  else
    put(&p, "batch        %" PRId64 " samples in %" PRId64 " micro-batches of %s%" PRId64 "\n",
        plan->share, plan->accumulation_steps, plan->share % plan->micro_batch ? "at most " : "",
        plan->micro_batch);
  if (way->lines) put(&p, "%s", way->lines);
  put(&p, "precision    %s\n", ac_precision_name(plan->precision));
  put_memory(&p, plan, picture_bytes);
  return text;
}

void plan_table(const ac_device_info *device, const ac_plan_info *plan, uint64_t picture_bytes) {
  char text[PLAN_TABLE_BYTES];
  fputs(plan_table_text(text, sizeof text, device, plan, picture_bytes), stderr);
}
