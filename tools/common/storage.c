#include "common/storage.h"

#include "common/message.h"

#include <stdio.h>

/* The choices of --optimizer are the library's kinds, without that of a caller's own. */
static ac_optimizer_kind kind_of(int optimizer) {
  return (ac_optimizer_kind)(optimizer + (optimizer >= AC_OPTIMIZER_CALLBACK));
}

const char *storage_optimizer_name(int optimizer) {
  return ac_optimizer_name(kind_of(optimizer));
}

/* "adamw, sgd and lion" */
static void name_eight_bit(char *text, size_t size) {
  int left = 0;
  size_t used = 0;
  for (int k = 0; k < AC_OPTIMIZER_COUNT; k++) left += ac_optimizer_has_8bit((ac_optimizer_kind)k);
  text[0] = 0;
  for (int k = 0; k < AC_OPTIMIZER_COUNT && used < size; k++) {
    if (!ac_optimizer_has_8bit((ac_optimizer_kind)k)) continue;
    left--;
    used +=
        (size_t)snprintf(text + used, size - used, "%s%s", ac_optimizer_name((ac_optimizer_kind)k),
                         left > 1    ? ", "
                         : left == 1 ? " and "
                                     : "");
  }
}

static const gradient_way ways[GRADIENTS_COUNT] = {
    [AC_GRADIENTS_AUTO] = {.name = "auto",
                           .may_keep = true,
                           .may_have_noise = true,
                           .has_norm = true,
                           .can_skip = true},
    [AC_GRADIENTS_BUFFER] = {.name = "buffer",
                             .passes = 1,
                             .may_keep = true,
                             .may_have_noise = true,
                             .has_norm = true,
                             .can_skip = true},
    [AC_GRADIENTS_FUSED] = {.name = "fused",
                            .lines = "gradients    none are kept: the backward pass runs twice, "
                                     "the second time with the update (fused-local runs it once)\n",
                            .passes = 2,
                            .one_micro_batch = true,
                            .has_norm = true,
                            .can_skip = true},
    [AC_GRADIENTS_FUSED_LOCAL] = {.name = "fused-local",
                                  .lines = "gradients    none are kept: each weight is clipped and "
                                           "stepped by itself in the backward pass\n",
                                  .passes = 1,
                                  .one_micro_batch = true,
                                  .has_norm = true},
    [AC_GRADIENTS_FOLDED] = {.name = "folded",
                             .lines = "gradients    folded into the optimizer's state, or of "
                                      "muon's its momenta, as they come: no clipping, and nothing "
                                      "can be skipped\n",
                             .passes = 1,
                             .folds = true,
                             .needs_weights = true},
    [AC_GRADIENTS_SHARDED] = {.name = "sharded",
                              .lines = "gradients    divided among ranks: each keeps the sum of "
                                       "its part, and they are exchanged in each micro-batch\n",
                              .passes = 1,
                              .may_have_noise = true,
                              .has_norm = true,
                              .can_skip = true},
    [GRADIENTS_BF16] = {.name = "bf16",
                        .may_keep = true,
                        .may_have_noise = true,
                        .has_norm = true,
                        .can_skip = true},
};

const gradient_way *gradient_way_of(int gradients) {
  return &ways[gradients];
}

void storage_add_options(storage_flags *f, options *o) {
  const option rows[] = {
      FLAG("optimizer", OPTION_CHOICE, &f->optimizer),
      FLAG("weights", OPTION_CHOICE, &f->weights),
      FLAG("working-copies", OPTION_CHOICE, &f->working_copies),
      FLAG("gradients", OPTION_CHOICE, &f->gradients),
      FLAG("optimizer-state", OPTION_CHOICE, &f->optimizer_state),
      FLAG("state-f32", OPTION_TEXT, &f->state_f32),
      FLAG("optimizer-state-in", OPTION_CHOICE, &f->state_space),
      FLAG("host-memory", OPTION_SIZE, &f->host_memory),
  };
  OPTIONS_ADD(o, rows);
}

int storage_check(const storage_flags *f, ac_precision precision) {
  if (f->optimizer_state == AC_STATE_8BIT && !ac_optimizer_has_8bit(kind_of(f->optimizer))) {
    char names[128];
    name_eight_bit(names, sizeof names);
    return fail_usage("--optimizer-state 8bit is for %s, not for %s", names,
                      storage_optimizer_name(f->optimizer));
  }
  if (f->weights == AC_WEIGHTS_BF16 && precision != AC_PRECISION_BF16)
    return fail_usage("--weights bf16 needs --precision bf16");
  if (f->working_copies && precision == AC_PRECISION_F32)
    return fail_usage("--working-copies has no meaning at --precision f32");
  if (f->state_space == AC_STATE_ON_DEVICE && f->host_memory)
    return fail_usage("--host-memory has no meaning with --optimizer-state-in device");
  return STATUS_CONTINUE;
}

void storage_describe(const storage_flags *f, ac_plan_desc *plan) {
  const bool bf16 = f->gradients == GRADIENTS_BF16;
  plan->optimizer.kind = kind_of(f->optimizer);
  plan->weights = (ac_weights)f->weights;
  plan->working_copies = (ac_working_copies)f->working_copies;
  plan->gradients = bf16 ? AC_GRADIENTS_AUTO : (ac_gradients)f->gradients;
  plan->gradient_storage = bf16 ? AC_GRADIENT_BF16 : AC_GRADIENT_F32;
  plan->optimizer.state = (ac_optimizer_state)f->optimizer_state;
  plan->optimizer.state_f32 = f->state_f32;
  plan->state_space = (ac_state_space)f->state_space;
  plan->host_memory = f->host_memory;
}

void storage_words(const storage_flags *f, char *text, size_t size) {
  static const char *const spaces[] = {"", ", optimizer-state-in device",
                                       ", optimizer-state-in host"};
  static const char *const copies[] = {"", ", working-copies keep", ", working-copies none"};
  const bool named = f->gradients != AC_GRADIENTS_AUTO;
  snprintf(text, size, "%s%s%s%s%s%s%s%s%s%s", f->optimizer == AC_ADAMW ? "" : ", ",
           f->optimizer == AC_ADAMW ? "" : storage_optimizer_name(f->optimizer),
           f->weights == AC_WEIGHTS_BF16 ? ", weights bf16" : "", copies[f->working_copies],
           named ? ", gradients " : "", named ? ways[f->gradients].name : "",
           f->optimizer_state == AC_STATE_8BIT ? ", optimizer-state 8bit" : "",
           f->state_f32 ? ", state-f32 " : "", f->state_f32 ? f->state_f32 : "",
           spaces[f->state_space]);
}
