/** What was to be written, or what stands, breaks a rule of the format. */
export class InvalidError extends Error {}

/** The event cannot be written as things stand; somebody has to look. */
export class ConflictError extends Error {}
