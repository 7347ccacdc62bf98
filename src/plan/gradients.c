#include "plan/gradients.h"

#include "ops/description.h"

enum { FOLD = 1 << AC_PHASE_FOLD, MEASURE = 1 << AC_PHASE_REDUCE, STEP = 1 << AC_PHASE_UPDATE };

#define WAY(name) .gradients = AC_GRADIENTS_##name, .constant = "AC_GRADIENTS_" #name

/* clang-format off */
static const ac_gradient_way ways[AC_GRADIENT_WAYS] = {
    [AC_GRADIENTS_AUTO] = {
        WAY(AUTO), .words = "left to the plan",
        .has_norm = true,
        .can_skip = true, .can_decide = true, .can_discard = true,
        .between_ranks = true, .moves_state = true,
    },
    [AC_GRADIENTS_BUFFER] = {
        WAY(BUFFER), .words = "kept",
        .passes = 1,
        .keeps = true, .has_noise = true, .has_norm = true,
        .can_skip = true, .can_decide = true, .can_discard = true,
        .between_ranks = true, .moves_state = true,
        .by_auto = true, .auto_may_need_less = true,
    },
    [AC_GRADIENTS_FUSED] = {
        WAY(FUSED), .words = "fused",
        .passes = 2, .phases = {MEASURE, STEP}, .one_micro_batch = true,
        .has_norm = true,
        .can_skip = true, .can_decide = true, .can_discard = true,
        .holds_parameters = "the update computes the window's gradients again and needs the "
                            "parameters unchanged; update or discard it first",
        .moves_state = true,
        .by_auto = true, .auto_may_need_less = true,
    },
    [AC_GRADIENTS_FUSED_LOCAL] = { /* a step that is left out would not move its state back */
        WAY(FUSED_LOCAL), .words = "fused locally",
        .passes = 1, .phases = {MEASURE | STEP}, .one_micro_batch = true,
        .has_norm = true,
        .can_discard = true, .steps_alone = true,
        .auto_may_need_less = true,
    },
    [AC_GRADIENTS_FOLDED] = { /* its state is needed in each micro-batch */
        WAY(FOLDED), .words = "folded",
        .passes = 1, .phases = {FOLD},
        .folds = true,
        .can_decide = true,
        .holds_parameters = "the window's gradients are folded into the optimizer's state; update "
                            "first",
        .needs_weights = true,
    },
    [AC_GRADIENTS_SHARDED] = { /* with several ranks; one keeps all */
        WAY(SHARDED), .words = "divided among ranks",
        .passes = 1,
        .shards = true, .has_noise = true, .has_norm = true,
        .can_skip = true, .can_decide = true, .can_discard = true,
        .between_ranks = true, .moves_state = true,
    },
};
/* clang-format on */

const ac_gradient_way *ac_gradient_way_of(ac_gradients gradients) {
  return (unsigned)gradients < AC_GRADIENT_WAYS ? &ways[gradients] : NULL;
}
