/* Where a model's weights are. */
#ifndef TOOLS_PROGRAM_MODEL_PATH_H
#define TOOLS_PROGRAM_MODEL_PATH_H

enum { MODEL_PATH_BYTES = 4096 };

/* `given` itself; for a folder FOLDER/model.safetensors, as accrue train and Hugging Face's
 * transformers write it. `flag` is for the message. A status of message.h. */
int model_path(const char *flag, const char *given, char path[MODEL_PATH_BYTES]);

#endif
