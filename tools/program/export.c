/* `accrue export`: writes a language model for other programs. What is written is read back, and
 * its logits are compared before it gets its name. */
#include "program/commands.h"
#include "program/export_adapter.h"
#include "program/export_proof.h"
