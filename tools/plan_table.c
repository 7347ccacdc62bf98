#include "plan_table.h"

#include "message.h"
#include "text.h"

#include <inttypes.h>

void plan_table(const ac_device_info *device, const ac_plan_info *plan) {
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
  say("device       %s: %s (%s)", device->id, device->name, device->driver);
  say("model        %s parameters", text_count(plan->parameter_count).text);
  if (plan->accumulation_steps == 1) say("batch        %" PRId64 " samples at once", plan->batch);
  else
    say("batch        %" PRId64 " samples in %" PRId64 " micro-batches of %s%" PRId64, plan->batch,
        plan->accumulation_steps, plan->batch % plan->micro_batch ? "at most " : "",
        plan->micro_batch);
  for (int i = 0; i < 7; i++)
    say("%-12s %-18s %12s%s%s", i ? "" : "memory", classes[i].name,
        text_bytes(classes[i].bytes).text, i == 6 && plan->budget_bytes ? " of " : "",
        i == 6 && plan->budget_bytes ? text_bytes(plan->budget_bytes).text : "");
  if (plan->library_bytes)
    say("%-12s %-18s %12s, held by libraries outside the plan", "", "besides",
        text_bytes(plan->library_bytes).text);
}
