/* What a run prints at its end about layers that learn nothing or next to nothing. */
#ifndef TOOLS_PROGRAM_LAYER_WORDS_H
#define TOOLS_PROGRAM_LAYER_WORDS_H

#include <accrue/accrue.h>
#include <jansson.h>

/* Prints it, if there is anything to print. */
void layer_words(const ac_trainer *trainer);
/* The same for metrics, an object for each layer: name, hint, units, dead_units. */
json_t *layer_hints(const ac_trainer *trainer);

#endif
