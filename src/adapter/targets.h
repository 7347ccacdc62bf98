/* Which layers have an adapter, and of what rank and scale. */
#ifndef AC_ADAPTER_TARGETS_H
#define AC_ADAPTER_TARGETS_H

#include <accrue/adapter.h>

/* What follows a layer's name and a dot in the names of an adapter's parameters. In files the last
 * one has PEFT's name, and holds the magnitudes instead of their changes. */
#define AC_LORA_A "lora_A.weight"
#define AC_LORA_B "lora_B.weight"
#define AC_LORA_MAGNITUDE "lora_magnitude_change"

/* What one layer gets. rank 0: nothing. */
typedef struct ac_lora_choice {
  int64_t rank;
  double alpha, scale;
} ac_lora_choice;

/* What is wrong with a description, as a sentence without the builder's name; NULL: nothing. */
const char *ac_lora_fault(const ac_lora_desc *desc);

/* Of a layer with this name; the description is a good one. */
ac_lora_choice ac_lora_choose(const ac_lora_desc *desc, const char *name);

#endif
