// Requests to the REST API. After the session ends, the login dialog appears and the request can be repeated.

import { sessionEnded } from "./session.js";

export class Problem extends Error {
  constructor(status, document) {
    super(document.detail || document.title || `The broker responded with status ${status}.`);
    this.status = status;
    this.document = document;
  }
}

export function get(path, signal) {
  return ask("GET", path, undefined, signal);
}

export function patch(path, body, signal, version) {
  return ask("PATCH", path, body, signal, condition(version));
}

export function post(path, body, version) {
  return ask("POST", path, body, undefined, condition(version));
}

/** `version`: the version that the edit is based on; 0 for a new entity. */
export function put(path, body, version, signal) {
  return ask("PUT", path, body, signal, condition(version));
}

export function remove(path, version, signal) {
  return ask("DELETE", path, undefined, signal, condition(version));
}

/** Sends the text of a file, of the media type `media`. */
export function upload(path, text, media, version, signal) {
  return ask("POST", path, new Blob([text], { type: media }), signal, condition(version));
}

/** A change that requires the signed-in user's `secret` again. */
export function proven(method, path, { body, version, secret }) {
  const bytes = new TextEncoder().encode(secret);
  return ask(method, path, body, undefined, { ...condition(version), "X-Present-Secret": btoa(String.fromCharCode(...bytes)) });
}

function condition(version) {
  return version === undefined ? {} : { "If-Match": `"${version}"` };
}

async function ask(method, path, body, signal, more = {}) {
  const headers = { ...more };
  const isFile = body instanceof Blob;
  if (body !== undefined) headers["Content-Type"] = isFile ? body.type : "application/json";
  if (document.body.dataset.csrf) headers["X-CSRF-Token"] = document.body.dataset.csrf;
  let response;
  try {
    response = await fetch(path, { method, headers, signal, body: isFile ? body : body && JSON.stringify(body) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, { detail: "The broker does not respond." });
  }
  if (response.ok) return response.status === 204 ? null : response.json();
  if (response.status === 401 && document.body.dataset.csrf) throw new Problem(401, { detail: sessionEnded() });
  throw new Problem(response.status, await response.json().catch(() => ({})));
}
