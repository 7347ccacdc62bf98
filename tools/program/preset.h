/* --preset NAME: a model's shape by its name (models/presets.h). It sets flags of the shape as if
 * they had been given in a file: those of the command line replace them. */
#ifndef TOOLS_PROGRAM_PRESET_H
#define TOOLS_PROGRAM_PRESET_H

#include "common/options.h"
#include "models/presets.h"

/* Sets the flags of the shape. `where` is for messages: "" or a file with what follows its name. A
 * status of message.h. */
int preset_apply(options *o, const char *kind, const char *name, const char *where);

/* That of --preset; NULL: none is given. */
const model_preset *preset_given(const options *o);

#endif
