// Starts the page. Where pods get networks of their own, browsers cut off whatever they are loading when one comes or goes:
// then the page is loaded once more.

const AGAIN_MILLISECONDS = 400;

function again() {
  setTimeout(() => location.reload(), AGAIN_MILLISECONDS);
}

const app = document.createElement("script");
app.type = "module";
app.src = "/static/app.js";
app.addEventListener("error", again);
const style = document.createElement("link");
style.rel = "stylesheet";
style.href = "/static/page.css";
style.addEventListener("error", again);
document.head.append(style, app);
