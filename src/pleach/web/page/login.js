// Logs in with a token: the answer sets a cookie that this script cannot read.

const token = document.getElementById("token");
const refusal = document.getElementById("refusal");

document.getElementById("login").addEventListener("submit", async (event) => {
  event.preventDefault();
  refusal.textContent = "";
  try {
    const response = await fetch("/login", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ token: token.value }),
    });
    if (response.ok) {
      location.replace("./");
      return;
    }
    const answer = await response.json();
    refusal.textContent = response.status === 404 ? "no log-in is needed here" : `${answer.error}; ${answer.remedy}`;
  } catch {
    refusal.textContent = "the broker does not answer";
  }
  token.value = "";
});
