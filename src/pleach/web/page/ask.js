// Requests that ask for something: JSON, with the token that this page was given.

const token = document.querySelector('meta[name="pleach-token"]').content;

export class Refusal extends Error {
  constructor(answer) {
    super([answer.error, answer.remedy].filter(Boolean).join("; "));
    this.reason = answer.error;
    this.column = answer.column; // of a filter, counted from 1
  }
}

// The way by which whoever looks at this page has logged in.
export const way = document.querySelector('meta[name="pleach-way"]').content;

export async function logOut() {
  await fetch("/logout", { method: "POST", headers: { "Content-Type": "application/json" }, body: "{}" });
  location.reload();
}

export async function ask(action, body) {
  let response;
  try {
    response = await fetch(action, {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-Pleach-Token": token },
      body: JSON.stringify(body),
    });
  } catch {
    throw new Refusal({ error: "the dashboard's server does not answer", remedy: "is it running?" });
  }
  if (response.status === 401) location.reload(); // the session has ended: it leads to the log-in
  const answer = await response.json();
  if (!response.ok) throw new Refusal(answer);
  return answer;
}
