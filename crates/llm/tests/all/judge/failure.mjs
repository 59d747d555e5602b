// What is wrong with a call, in the words of `reading.rs`.

const KINDS = {
  BadRequestError: "invalid-request",
  NotFoundError: "invalid-request",
  AuthenticationError: "authentication",
  PermissionDeniedError: "authentication",
  RateLimitError: "rate-limit",
  InternalServerError: "server",
  ServiceUnavailableError: "overloaded",
  OverloadedError: "overloaded",
};

// For the SDKs that have a class for each status. An error in mid-stream has none; that of Responses is an event, whose
// type says only that.
export function failure(error, told) {
  const name = error.constructor.name;
  if (told === undefined) return { kind: broken(error) ? "connection" : name, status: null, type: null, message: null };
  const kind = error.status === undefined ? null : KINDS[name] ?? name;
  return { kind, status: error.status ?? null, type: told.type === "error" ? told.code : told.type, message: told.message };
}

// The SDKs hand on what node says about a connection that broke, some of them wrapped.
export function broken(error) {
  for (let at = error; at; at = at.cause) {
    if (at.code === "UND_ERR_SOCKET" || at.message === "terminated") return true;
  }
  return false;
}
