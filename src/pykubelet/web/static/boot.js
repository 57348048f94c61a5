// Starts the page, and loads it again if that fails: browsers cancel loading when the network interface of a pod comes or
// goes.

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
