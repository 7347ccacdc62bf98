/* Where a model's weights are. */
#ifndef TOOLS_PROGRAM_MODEL_PATH_H
#define TOOLS_PROGRAM_MODEL_PATH_H

enum { MODEL_PATH_BYTES = 4096 };

/* `given` itself, or FOLDER/model.safetensors where it is a folder, as accrue train and Hugging
 * Face's transformers write them. `flag` is for the sentence. A status of message.h. */
int model_path(const char *flag, const char *given, char path[MODEL_PATH_BYTES]);

#endif
